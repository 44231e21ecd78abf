"""Snapshots of several shards: the same keys on two of them, rows that move, shards that come and go."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from integration.shop import DEADLINE_S, Shop, in_background
from integration.zookeeper_fixtures import eventually
from support.instance.shop_copy import Copy, changing

from canal_group.actors.driver.instance import Instance
from canal_group.operator import Operator, calls


def options(tmp_path: Path, rows_per_s: int = 2_000) -> dict[str, Any]:
    """Return settings by which a snapshot takes some time."""
    return {"archive": {"folder": str(tmp_path / "archive")}, "snapshot": {"rows_per_s": rows_per_s}}


def definitions(shop: Shop) -> list[dict[str, Any]]:
    """Return the shop's shards as an instance file has them."""
    return [json.loads(shard.model_dump_json(exclude_defaults=True)) for shard in shop.settings().shards]


@contextlib.contextmanager
def copying(shop: Shop, instance: Instance) -> Iterator[Copy]:
    """Yield a copy that has some of the rows."""
    with shop.connect(instance, client_id="copy", snapshot="initial") as consumer:
        copy = Copy(consumer)
        copy.until(lambda: copy.reads > 300)
        yield copy


def test_same_key_two_shards_and_row_moves_shards(readable: Shop, tmp_path: Path) -> None:
    """1. Both shards have rows of the same ids; the columns of one are in another order, and one has a table
    more (tables_differ_between_shards). 2. While they are read, rows move from the first shard to the
    second. 3. The copy is what they have; where both tables are one, the last event of a row that moved says
    where it is. MariaDB stamps whole seconds, and within one of them nothing orders the shards: a row
    arrives in a later second than it left.
    """
    readable.write_everywhere(20, 50)
    first, second = readable.servers
    for index, server in enumerate(readable.servers):
        same = ", ".join(f"({900_000 + number}, 'of {index}', {index})" for number in range(500))
        server.execute(f"INSERT INTO shop_{index}.orders VALUES {same}")
    first.execute("ALTER TABLE shop_0.orders MODIFY note VARCHAR(300) AFTER price")
    second.execute("CREATE TABLE shop_1.more (id INT PRIMARY KEY)", "INSERT INTO shop_1.more VALUES (1)")
    moved = readable.written["s0"][::10]

    def second_of(server: Any) -> int:
        return int(server.execute("SELECT UNIX_TIMESTAMP()")[0][0])

    def move() -> None:
        for numbers in (moved[::2], moved[1::2]):
            for number in numbers:
                first.execute(f"DELETE FROM shop_0.orders WHERE id = {number}")
            left_s = second_of(first)
            eventually(lambda left_s=left_s: second_of(second) > left_s, "the next second")
            for number in numbers:
                second.execute(f"INSERT INTO shop_1.orders VALUES ({number}, 'moved', 1)")

    with readable.serve(**options(tmp_path, rows_per_s=500)) as instance, copying(readable, instance) as copy:
        moving = in_background(move)
        copy.complete(readable)
        moving.join()
        copy.check(readable)
    assert not any(mark.failed for mark in copy.marks)
    assert {copy.shards[number] for number in moved} == {"s1"}
    assert all((shard, 900_000) in copy.rows for shard in ("s0", "s1"))


@pytest.mark.soak
def test_one_shard_down(readable: Shop, tmp_path: Path) -> None:
    """A source goes away while its rows are read, and comes back: all of them come."""
    readable.write_everywhere(40, 50)
    with readable.serve(**options(tmp_path)) as instance, copying(readable, instance) as copy:
        readable.servers[1].kill()
        readable.write(0, 10)
        for _ in range(5):
            copy.read(0.5)
        readable.servers[1].start()
        with changing(readable, 3):
            copy.complete(readable)
        copy.check(readable)
    assert not any(mark.failed for mark in copy.marks)


@pytest.mark.soak
def test_shard_joins_mid_snapshot(readable: Shop, tmp_path: Path) -> None:
    """1. A shard joins: its changes come from then on. 2. Its rows come when an operator adds its table."""
    readable.write_everywhere(40, 50)
    first, second = definitions(readable)
    settings = options(tmp_path, rows_per_s=1_000)
    with (
        readable.serve(shards=[first], **settings) as instance,
        contextlib.closing(Operator(instance.uri, readable.destination)) as operator,
        copying(readable, instance) as copy,
    ):
        assert instance.adopt(readable.settings(shards=[first, second], **settings)) == ["shard s1 joins"]
        assert operator.joined("s1", DEADLINE_S)
        readable.write_everywhere(5)
        copy.until(lambda: {mark.shard for mark in copy.marks} == {"s0"})
        copy.until(lambda: copy.read(1.0) is None)
        assert {number for shard, number in copy.rows if shard == "s1"} == set(readable.written["s1"][-5:])
        operator.ask(calls.AddToSnapshot("copy", "shop_1.orders"))
        copy.complete(readable)
        copy.check(readable)


@pytest.mark.soak
def test_shard_leaves_mid_snapshot(readable: Shop, tmp_path: Path) -> None:
    """The snapshot of the other one is complete, and the client goes on with it."""
    readable.write_everywhere(40, 50)
    with (
        readable.serve(**options(tmp_path, rows_per_s=1_000)) as instance,
        contextlib.closing(Operator(instance.uri, readable.destination)) as operator,
        copying(readable, instance) as copy,
    ):
        assert operator.ask(calls.RemoveShard("s1", now=True))["role"] == "left"
        copy.until(lambda: copy.marks)
        assert {mark.shard for mark in copy.marks} == {"s0"}
        readable.write(0, 5)
        copy.until(lambda: copy.read(1.0) is None)
        rows = {number for shard, number in copy.rows if shard == "s0"}
        assert rows == set(readable.written["s0"])
        eventually(lambda: not copy.consumer.ask_cursor().snapshots, "it is over")
        assert set(copy.consumer.ask_cursor().shards) == {"s0"}
