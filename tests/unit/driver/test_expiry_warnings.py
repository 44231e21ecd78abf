"""What a server logs of certificates that expire."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.security.certificates import Authority

from canal_group.actors.driver import expiry_warnings
from canal_group.actors.driver.expiry_warnings import ExpiryWarnings
from canal_group.conf.load import build_instance


def instances(folder: Path) -> dict[Path, Any]:
    """Return two instances: the certificate of one holds for ten days, that of the other for a year."""
    folder.mkdir(exist_ok=True)
    return {
        folder / f"{name}.yaml": SimpleNamespace(
            settings=build_instance(
                {
                    "preset": "memory",
                    "destination": name,
                    "shards": [{"name": "s0", "files": "/none"}],
                    "gateway": {"ssl": {"cert": str(pair.cert), "key": str(pair.key)}},
                }
            )
        )
        for name, days in (("near", 10), ("far", 365))
        for pair in [Authority(folder).pair(name, days=days)]
    }


def test_what_expires_is_named_at_each_start_and_every_day(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    pair, now_s = Authority(tmp_path).pair("page", days=-0.01), [0.0]
    warnings = ExpiryWarnings(pair.cert)
    times = SimpleNamespace(**{**vars(expiry_warnings.time), "monotonic": lambda: now_s[0]})
    monkeypatch.setattr(expiry_warnings, "time", times)

    def told(running: dict[Path, Any], at_s: float) -> list[str]:
        now_s[0] = at_s
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            warnings.tell(running)
        return [each.getMessage() for each in caplog.records]

    running = instances(tmp_path)
    page, near = told(running, 0)
    assert page.startswith(f"--http-cert: {pair.cert} has expired on 20")
    assert page.endswith("restart the server.")
    assert near.startswith(f"gateway.ssl.cert: {tmp_path / 'near.pem'} expires on 20")
    assert near.endswith("restart the instance.")
    assert [each.destination for each in caplog.records] == [None, "near"]
    assert told(running, 86_400) == []
    assert len(told(running, 86_402)) == 2
    assert told(instances(tmp_path), 90_000) == [near], "one that was started anew"
    assert told({}, 90_001) == []
