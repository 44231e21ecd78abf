"""The board and the alerts over a real Prometheus that scrapes a running instance."""

from __future__ import annotations

import json
import time
from contextlib import closing
from pathlib import Path

import pytest
from integration.output.faults import RECOVERED_S, Relay
from integration.output.relay_values import relay_values
from integration.shared_servers import SharedShop
from integration.zookeeper_fixtures import eventually
from support.instance.http_service import listening
from support.instance.prometheus import ROOT, scraping
from support.soak import patient

import canal_group

BOARD = ROOT / "deploy" / "grafana" / "canal-group.json"
#: what Grafana puts in for its variables
VARIABLES = {"$destination": ".*", "$__rate_interval": "15s", "$__range": "1m"}
#: seconds until Prometheus must have seen everything
SEEN_S = patient(30.0)


def expressions() -> dict[str, str]:
    """Return the board's queries by the title of their panel and their letter."""
    panels = json.loads(BOARD.read_text())["panels"]
    found = {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in panels
        for target in panel["targets"]
    }
    for name, value in VARIABLES.items():
        found = {title: expression.replace(name, value) for title, expression in found.items()}
    return found


@pytest.mark.soak
def test_every_panel_shows_something_and_nothing_alerts(served: SharedShop, tmp_path: Path):
    settings = relay_values(served, {"kind": "lines", "path": str(tmp_path / "lines")}, metrics={"port": 0})
    with (
        listening(served, tmp_path) as called,
        served.connect() as consumer,
        closing(Relay(tmp_path, settings)) as relay,
    ):
        eventually(relay.publishes, "the subscription", within_s=RECOVERED_S)
        targets = [
            url.removeprefix("http://").removesuffix("/metrics")
            for url in (called.service.url, relay.metrics_url)
        ]
        with scraping(tmp_path, *targets) as prometheus:
            missing = expressions()
            # Nothing is wrong and the group waits for nobody: no series of these.
            for quiet in (
                "The group waits for A",
                *(f"What was not as it should be {each}" for each in "EF"),
                "Lag and failures of relays D",
            ):
                assert prometheus.query(missing.pop(quiet)) == []
            deadline_s = time.monotonic() + SEEN_S
            while missing and time.monotonic() < deadline_s:
                served.write(0, 1)
                batch = consumer.get_without_ack(timeout=60)
                batch.envelope()
                consumer.ack(batch.batch_id)
                with pytest.raises(canal_group.UnknownBatch):
                    consumer.ack(batch.batch_id)
                missing = {title: each for title, each in missing.items() if not prometheus.query(each)}
            assert missing == {}
            assert prometheus.query('ALERTS{alertstate="firing"}') == []
