"""An instance whose source another server takes over: by GTID nothing is lost, and nothing comes twice."""

from __future__ import annotations

import pytest
from integration.group_fixtures import all_started
from integration.shop import Reading, Shop, in_background
from support.deadline import await_true
from support.sources.replication import gtids, replicate

from playground.database.mariadb import MariaDbServer
from playground.database.mysql import MySqlServer


@pytest.fixture(params=[MySqlServer, MariaDbServer], ids=lambda make: make.engine)
def pair(request):
    """A server and its standby; their binlogs have the same name."""
    with all_started(request.param(), request.param(options=["--log-slave-updates=ON"])) as servers:
        yield servers


@pytest.mark.soak
def test_a_standby_takes_over_at_different_positions(one_ray, one_zookeeper, pair, tmp_path):
    """1. one subscriber reads all, one half; 2. the standby takes the address; 3. both read on, whole."""
    source, standby = pair
    # Its offsets are its own: smaller files before, and rows that the source never had.
    standby.execute("CREATE DATABASE own", "CREATE TABLE own.t (id INT)", "FLUSH BINARY LOGS")
    replicate(source, standby)
    shop = Shop([source], one_zookeeper.hosts, tmp_path)
    with (
        shop.serve() as instance,
        shop.connect(instance, client_id="ahead") as first,
        shop.connect(instance, client_id="behind") as second,
    ):
        ahead, behind = Reading(first), Reading(second)
        shop.write(0, 40)
        ahead.until(40)
        behind.until(20, batch_size=5)
        at = len(behind.ids)
        standby.execute("INSERT INTO own.t VALUES (1), (2), (3)")
        await_true(lambda: gtids(standby).contains(gtids(source)), "the standby has all of it")
        source.stop()
        standby.stop()
        standby.port = source.port
        standby.start()
        shop.servers[0] = standby
        writing = in_background(lambda: shop.write(0, 40))
        writing.join()
        for reading in (ahead, behind):
            reading.until(80)
        state = first.status()
    assert at < 40, "one of them was behind"
    for reading in (ahead, behind):
        assert sorted(reading.ids.values()) == shop.written["s0"], "nothing is lost, nothing comes twice"
        reading.check_runs()
    assert state["group"]["shards"][0]["error"] is None
