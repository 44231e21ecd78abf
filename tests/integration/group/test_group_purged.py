"""Whole instances whose sources purge what a client id has not read, with each policy that lets it go on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from integration.shop import DEADLINE_S, Reading, Shop
from integration.zookeeper_fixtures import eventually
from support.sources.purged_logs import purge_all_but_the_last

import canal_group
from canal_group.programs.command.status_page import print_status


@pytest.fixture
def any_shop(request: pytest.FixtureRequest) -> Shop:
    chosen: Shop = request.getfixturevalue(request.param)
    return chosen


@pytest.mark.parametrize(
    ("any_shop", "policy"),
    [
        pytest.param("shop", "earliest", marks=pytest.mark.soak),
        pytest.param("mysql_shop", "latest", marks=pytest.mark.soak),
        pytest.param("shop", "latest", marks=pytest.mark.soak),
        pytest.param("mysql_shop", "earliest", marks=pytest.mark.soak),
    ],
    indirect=["any_shop"],
)
def test_the_old_client_goes_on_and_only_it_loses_something(
    any_shop: Shop, policy: str, capsys: pytest.CaptureFixture[str]
):
    """1. `app` has acknowledged all, `old` nothing. 2. The instance is away; one source purges all that
    was written, and writes 3 transactions more. 3. `app` misses and repeats nothing. `old` goes on, on the
    purged shard at the oldest or the newest position, and the loss is shown. 4. So it is after a restart.
    """
    shop = any_shop
    with shop.serve() as instance:
        shop.connect(instance, client_id="old").close()
        with shop.connect(instance, client_id="app") as app:
            shop.write_everywhere(5)
            app_read = Reading(app)
            app_read.until(shop.rows)
    purged = shop.servers[0]
    purged.execute("FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
    purge_all_but_the_last(purged)
    shop.write(0, 3)
    with shop.serve(merge={"purged": policy}) as instance, _clients(shop, instance) as (app, old):
        eventually(lambda: _losses(app, "old"), "the loss", within_s=DEADLINE_S)
        shop.write_everywhere(2)
        app_read.consumer = app
        app_read.rolled_back()
        app_read.until(shop.rows)
        app_read.check(shop)
        old_read = Reading(old)
        lost = 5 if policy == "earliest" else 8
        old_read.until(shop.rows - lost)
        losses = _losses(app, "old")
        _check_loss(losses, lost)
        assert _losses(app, "app") == []
        print_status(app.status())
        assert "lost shard s0 from" in " ".join(capsys.readouterr().out.split())
    with shop.serve(merge={"purged": policy}) as instance, _clients(shop, instance) as (app, old):
        shop.write_everywhere(2)
        for read, client in ((app_read, app), (old_read, old)):
            read.consumer = client
            read.rolled_back()
        app_read.until(shop.rows)
        app_read.check(shop)
        old_read.until(shop.rows - lost)
        assert _losses(old, "old") == losses
    assert _ids(old_read, "s0") == shop.written["s0"][lost:]
    assert _ids(old_read, "s1") == shop.written["s1"]


def _check_loss(losses: list[dict], gtids: int) -> None:
    (loss,) = losses
    assert (loss["shard"], loss["number"], loss["gtids"]) == ("s0", 1, gtids)
    assert loss["found_us"] > 1_600_000_000_000_000
    assert loss["after"]["file"] < loss["until"]["file"]
    assert json.dumps(losses)


@contextmanager
def _clients(shop: Shop, instance) -> Iterator[tuple[canal_group.Consumer, canal_group.Consumer]]:
    with shop.connect(instance, client_id="app") as app, shop.connect(instance, client_id="old") as old:
        yield app, old


def _losses(consumer: canal_group.Consumer, client: str) -> list[dict]:
    clients = {each["client_id"]: each for each in consumer.status()["group"]["clients"]}
    found: list[dict] = clients[client]["losses"]
    return found


def _ids(read: Reading, shard: str) -> list[int]:
    return sorted(number for position, number in read.ids.items() if position[0] == shard)
