"""The page in a real browser, over a failover between two servers."""

from __future__ import annotations

from pathlib import Path

import pytest
from integration.shared_servers import Pair, SharedShop
from support.instance.http_service import listening
from support.instance.page import CHROMIUM, DRIVER, Page

pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="chromium and chromium-driver are not installed"
)


@pytest.mark.soak
def test_an_open_page_shows_the_active_server_after_a_failover(
    pair_shop: SharedShop, pair: Pair, tmp_path: Path, page: Page
):
    """It stays with its server, which stands by then: it names the active one, and what it missed."""
    with listening(pair_shop, tmp_path) as called:
        page.open(called.service.url)
        first, second = (one.uri.removeprefix("grpc://") for one in (pair.first, pair.second))
        page.until_text("#role", f"active on {first}")
        page.until_text("#servers", rf"(?s){first} is active since .*{second} stands by since")
        pair.hand_over()
        page.until_text("#role", f"standing by; {second} is active")
        page.until_text("#servers", f"{second} is active since")
        page.until_text("#events", "no longer active on this server")
        with pair_shop.connect(pair.second) as consumer:
            pair_shop.write(0, 1)
            assert consumer.get_without_ack(timeout=60) is not None
        page.open("about:blank")
