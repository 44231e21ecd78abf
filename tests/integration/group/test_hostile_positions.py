"""A raw client of the gateway invents numbers: another reader is served in order, by one group."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from integration.shop import DEADLINE_S, Reading, Shop
from pyarrow import flight

import canal_group
from canal_group.merge.values.gtids.gtid import NO_GTIDS, parse_gtid_set
from canal_group.merge.values.position import Position
from canal_group.merge.whole import TIMES_US

REFUSED = (-1, 2**63, 2**64, 10**30, 10**400, 0.5, float("nan"), float("inf"), "7", True, [], {})
MEMBERS = ("offset", "commit_us", "key_us", "rows_into_transaction", "page_rows", "created_s", "origin_id")


class RawClient:
    """Sends what no client of ours would send."""

    def __init__(self, uri: str, destination: str) -> None:
        self._flight = flight.connect(uri)
        self._destination = destination

    def ask(self, name: str, **body: Any) -> Any:
        """Return the answer to a request, as the gateway writes it."""
        text = json.dumps({"destination": self._destination, "client_id": "hostile", **body})
        (answer, *_) = self._flight.do_action(flight.Action(name, text.encode()))
        return json.loads(answer.body.to_pybytes())

    def value(self, name: str, **body: Any) -> Any:
        """Return the value of an answer that is not a refusal."""
        answer = self.ask(name, **body)
        assert "value" in answer, answer
        return answer["value"]

    def refusal(self, name: str, **body: Any) -> Any:
        """Return why a request is refused."""
        answer = self.ask(name, **body)
        assert "error" in answer, (name, body)
        assert answer["error"]["error"] == "UsageError", answer
        return answer["error"]["message"]


def with_number(position: str, member: str, value: Any) -> str:
    members = json.loads(position)
    for shard in members["shards"].values():
        shard[member] = value
    return json.dumps(members)


@pytest.fixture
def pid_of():
    """Return a function of an instance's group: its process, and its epoch."""

    def found(raw: RawClient) -> tuple[int, int]:
        group = raw.value("status")["group"]
        return group["pid"], group["epoch"]

    return found


def test_invented_numbers_concern_their_own_reader_alone(shop: Shop, pid_of):
    with shop.serve() as instance, shop.connect(instance) as honest:
        shop.write_everywhere(5)
        first = honest.get_without_ack(2, timeout=60)
        assert first is not None
        begin = first.start.to_json()
        reading = Reading(honest)
        reading.take(first.envelope())
        honest.ack(first.batch_id)
        reading.until(shop.rows // 2)
        raw = RawClient(instance.uri, shop.destination)
        group = pid_of(raw)
        # What is beyond its bounds is refused in a sentence, wherever it stands.
        for value in REFUSED:
            for member in MEMBERS:
                start = with_number(begin, member, value)
                assert member in raw.refusal("subscribe", holder="raw", start=start)
        # What is within them may be read from, however long ago, and has no say in the merged log.
        lie = with_number(begin, "key_us", TIMES_US.most)
        taken = raw.value("subscribe", holder="raw", start=lie)
        between = {"start": lie, "until": None, "rows_max": 2**63 - 1, "bytes_max": 2**63 - 1}
        held = {"epoch": taken["epoch"], "timeout_s": 10}
        raw.ask("offset_range", **held, offset_range=between, may_rewind=True)
        for value in REFUSED[:5]:
            raw.refusal("offset_range", **held, offset_range={**between, "rows_max": value})
            raw.refusal("get", **held, rows_max=value)
            raw.refusal("ack", epoch=taken["epoch"], batch_id=value)
            raw.refusal("rollback", epoch=value)
        shop.write_everywhere(5)
        reading.until(shop.rows)
        reading.check(shop)
        keys = [key for run in reading.runs for rows in run for key in rows["key_us"].to_pylist()]
        assert max(keys) < (time.time() + 60) * 1_000_000, "no key is later than the sources' clocks"
        assert pid_of(raw) == group
        with shop.connect(instance, client_id="later", start=first.start) as later:
            again = Reading(later)
            again.until(shop.rows)
            again.check(shop)
            assert sorted(again.ids) == sorted(reading.ids)


#: changes of the position before an event that is not read, by what is wrong with them
STARTS: dict[str, Callable[[Position], Position]] = {
    "the-event": lambda before: before,
    "purged": lambda before: replace(before, file=f"{before.file.rpartition('.')[0]}.000001", offset=4),
    "no-file": lambda before: replace(before, file=f"{before.file.rpartition('.')[0]}.000999", offset=4),
    "another-name": lambda before: replace(before, file="other-bin.000001", offset=4),
    "inside-an-event": lambda before: replace(before, offset=before.offset + 7),
    "beyond-the-end": lambda before: replace(before, offset=1 << 30),
    "unknown-server": lambda before: replace(before, server="unknown", gtid_set=NO_GTIDS),
    "GTIDs": lambda before: replace(
        before,
        server="unknown",
        gtid_set=parse_gtid_set(
            "7-7-7" if "-" in str(before.gtid_set)[:3] else "6f5d2d54-0000-11f0-8000-000000000000:1-9"
        ),
    ),
}


#: starts after what is logged: they wait for it, as far as it is known
AHEAD = {"no-file", "beyond-the-end"}


def until_refused(consumer: canal_group.Consumer) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline_s:
        batch = consumer.get_without_ack(100, timeout=0.5)
        if batch is not None:
            consumer.ack(batch.batch_id)


@pytest.fixture
def any_shop(request: pytest.FixtureRequest) -> Shop:
    chosen: Shop = request.getfixturevalue(request.param)
    return chosen


@pytest.mark.parametrize("any_shop", ["shop", "mysql_shop"], indirect=True)
def test_a_client_before_what_cannot_be_read_stops_itself_alone(any_shop: Shop):
    """1. A statement is logged that is refused. 2. `app` begins after it. 3. Others begin before it, or where
    there is nothing. 4. `app` reads on, the others hear why. 5. So it is after a restart.
    """
    shop, server = any_shop, any_shop.servers[0]
    with shop.serve() as instance:
        with shop.connect(instance, client_id="begin") as begin:
            before = begin.cursor
        server.execute("SET SESSION binlog_format = 'STATEMENT'", "UPDATE shop_0.orders SET price = 1")
        with shop.connect(instance, client_id="app", start="latest") as app:
            read = Reading(app)
            shop.write_everywhere(3)
            read.until(shop.rows)
            for wrong, change in STARTS.items():
                start = before.with_shard("s0", change(before.shards["s0"]))
                with shop.connect(instance, client_id=wrong, start=start) as early:
                    if wrong not in AHEAD:
                        with pytest.raises(canal_group.CanalGroupError, match=r"\bs0\b"):
                            until_refused(early)
                    shop.write_everywhere(1)
                    read.until(shop.rows)
            phases = {each["client_id"]: each["phase"] for each in app.status()["group"]["clients"]}
    assert phases == dict.fromkeys(["begin", *STARTS], "purged") | {"app": "reading"}
    with shop.serve() as instance, shop.connect(instance, client_id="app") as app:
        read.consumer = app
        shop.write_everywhere(1)
        read.until(shop.rows)
        read.check(shop)
