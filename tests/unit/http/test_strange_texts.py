"""What UTF-8 cannot encode ends neither an answer nor a scrape: it is escaped."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, generate_latest

from canal_group.actors.http.app import App
from canal_group.actors.http.ascii_json import AsciiJson
from canal_group.actors.http.metrics.instances import InstanceFamilies
from canal_group.actors.http.recent_log import RecentLog

EVIL = "\udcff\x1b[2K"
STATE: dict[str, Any] = {
    "destination": EVIL,
    "group": {"active": False, "stopped": EVIL, "error": EVIL},
    "shards": [],
    "gateway": {"error": EVIL},
}


def test_an_answer_is_always_ascii():
    assert AsciiJson({EVIL: [EVIL]}).body == b'{"\\udcff\\u001b[2K":["\\udcff\\u001b[2K"]}'
    made = App(dict, None, None, RecentLog(), hosts=["*"])  # type: ignore[arg-type]
    assert made.asgi.router.default_response_class is AsciiJson


def test_a_scrape_has_every_label_and_no_control_character():
    registry = CollectorRegistry()
    registry.register(InstanceFamilies([STATE]))
    text = generate_latest(registry).decode()
    assert "\x1b" not in text
    assert "canal_group_active{" in text
