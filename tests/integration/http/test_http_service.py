"""The HTTP service over a running instance: metrics, the REST API, and who may do what."""

from __future__ import annotations

import http.client
import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from integration.shared_servers import SharedShop
from integration.shop import DEADLINE_S
from integration.zookeeper_fixtures import eventually
from support.instance.http_service import Http, listening

import canal_group
from canal_group.actors.admission.calls import QUESTIONS_MAX
from canal_group.actors.http.app import BODY_BYTES_MAX
from canal_group.operator import Operator, calls


@pytest.fixture
def called(served: SharedShop, tmp_path: Path) -> Iterator[Http]:
    with listening(served, tmp_path) as called:
        yield called


def test_metrics_count_what_was_written_and_delivered(served: SharedShop, called: Http):
    of = f"destination={served.destination}"
    before = called.samples()
    with served.connect() as consumer:
        served.write(0, 3, rows=2)
        served.write(1, 1)
        rows = 0
        while rows < 7:
            batch = consumer.get_without_ack(timeout=60)
            rows += batch.rows
            consumer.ack(batch.batch_id)
        served.write(0, 1)
        held = consumer.get_without_ack(timeout=60)
        called.service._served()[served.destination].changed()
        after = called.samples()

        def grown(name: str, *labels: str) -> float:
            key = (f"canal_group_{name}", *sorted((of, *labels)))
            return after[key] - before.get(key, 0)

        assert grown("shard_rows_total", "kind=insert", "shard=s0") == 7
        assert grown("shard_rows_total", "kind=insert", "shard=s1") == 1
        assert grown("shard_rows_total", "kind=delete", "shard=s1") == 0
        assert grown("shard_transactions_total", "shard=s0") >= 4
        assert grown("shard_read_bytes_total", "shard=s0") > grown("shard_read_bytes_total", "shard=s1") > 100
        assert grown("shard_decoded_bytes_total", "shard=s0") > 0
        assert grown("shard_delay_seconds_count", "shard=s0") >= 4
        assert grown("client_delivered_rows_total", "client_id=reader") == 8
        assert grown("client_acked_rows_total", "client_id=reader") == 7
        assert grown("gateway_sent_rows_total") == 0, "no rows were fetched"
        held.envelope()
        called.service._served()[served.destination].changed()
        after = called.samples()
        assert grown("gateway_sent_rows_total") == 1
        assert grown("gateway_call_duration_seconds_count", "request=ack") >= 1
        assert after["canal_group_client_outstanding_batches", "client_id=reader", of] == 1
        assert after["canal_group_client_oldest_batch_age_seconds", "client_id=reader", of] >= 0
        assert after["canal_group_active", of] == after["canal_group_shard_up", of, "shard=s0"] == 1
        assert after["canal_group_watermark_timestamp_seconds", of] > 1.7e9
        assert called.samples(f"{called.base}/metrics").keys() == after.keys()
        assert not [key for key in after if any("orders" in part for part in key)], "tables are not labels"


def test_a_shard_is_held_resumed_and_known_by_name(served: SharedShop, called: Http):
    assert called.operate("POST", "/shards/s0/hold").json()["policy"] == "hold"
    assert {shard["shard"]: shard["policy"] for shard in called.state()["group"]["shards"]}["s0"] == "hold"
    assert called.operate("POST", "/shards/s0/resume").json()["policy"] is None
    unknown = called.operate("POST", "/shards/s9/hold")
    assert (unknown.status_code, unknown.json()["message"]) == (404, f"{served.destination} has no shard s9.")
    wrong = called.operate("POST", "/shards/s0/stop")
    assert wrong.status_code == 400
    assert "hold" in wrong.json()["message"]


def test_a_client_without_a_token_can_only_read(served: SharedShop, called: Http):
    assert [one["destination"] for one in called("GET", "/api/instances").json()] == [served.destination]
    for method, path in [
        ("POST", "/shards/s0/hold"),
        ("POST", "/stop"),
        ("POST", "/start"),
        ("DELETE", "/clients/reader"),
    ]:
        body = {"reason": "test"}
        refused = called(method, called.base + path, json=body)
        assert (refused.status_code, refused.json()["error"]) == (403, "AccessDenied"), path
    assert not called.audit_log.exists(), "nothing was begun"


def test_bad_requests_get_a_status_and_a_sentence(called: Http):
    no_json = called.operate("POST", "/stop", data="not json")
    assert (no_json.status_code, no_json.json()["message"]) == (400, "The body is not JSON.")
    missing = called.operate("POST", "/stop", json={})
    assert (missing.status_code, "reason" in missing.json()["message"]) == (400, True)
    large = called.operate("POST", "/stop", data=b" " * (BODY_BYTES_MAX + 1))
    assert (large.status_code, large.json()["error"]) == (413, "TooLarge")
    nowhere = called("GET", "/api/nothing")
    assert (nowhere.status_code, nowhere.json()["error"]) == (404, "UsageError")
    nobody = called("GET", "/api/instances/other")
    assert (nobody.status_code, nobody.json()["error"]) == (404, "NotFound")
    host, _, port = called.service.url.removeprefix("http://").rpartition(":")
    connection = http.client.HTTPConnection(host, int(port))
    connection.request("GET", "/api/instances", headers={"Host": "evil.example.com"})
    assert connection.getresponse().status == 400


def test_a_destination_is_stopped_once_and_started(served: SharedShop, called: Http):
    stopped = called.operate("POST", "/stop", json={"reason": "a disk is changed"})
    assert stopped.status_code == 200, stopped.text
    again = called.operate("POST", "/stop", json={"reason": "another one"})
    assert "a disk is changed" in again.json()["said"], "the first stop stays"
    assert "a disk is changed" in called.state()["group"]["stopped"]
    assert called("GET", "/ready").json() == {"ready": True, "instances": 1, "active": 0}
    assert called.samples()["canal_group_stopped", f"destination={served.destination}"] == 1
    refused = called.operate("POST", "/clients/reader/rewind", json={"to": "latest"})
    assert refused.status_code in (404, 503), refused.text
    assert called.operate("POST", "/start").status_code == 200
    with served.connect():
        called.service._served()[served.destination].changed()
        assert called("GET", "/ready").json()["active"] == 1
    lines = [json.loads(line) for line in called.audit_log.read_text().splitlines()]
    assert [(line["operation"], line["result"]) for line in lines] == [
        (operation, result) for operation in ("stop", "stop", "start") for result in ("begun", "done")
    ]
    assert {line["who"] for line in lines} == {"the operator at 127.0.0.1"}
    assert called.token not in called.audit_log.read_text()
    assert called("GET", "/api/audit", token=called.token).json() == lines
    assert called("GET", "/api/audit").json() == []


def test_clients_are_rolled_back_rewound_and_removed(served: SharedShop, called: Http):
    with served.connect() as consumer:
        served.write(0, 1)
        batch = consumer.get_without_ack(timeout=60)
        path = f"{called.base}/clients/reader"
        assert called("GET", path).json()["outstanding"][0]["batch_id"] == batch.batch_id
        assert called.operate("POST", "/clients/reader/rollback").json()["batches"] == 1
        busy = called.operate("POST", "/clients/reader/rewind", json={"to": "latest"})
        assert (busy.status_code, busy.json()["error"]) == (409, "ConsumerActive")
        assert called.operate("DELETE", "/clients/reader").status_code == 409
        again = consumer.get_without_ack(timeout=60)
        assert again.batch_id > batch.batch_id
    moved = called.operate("POST", "/clients/reader/rewind", json={"to": "latest"})
    assert moved.status_code == 200, moved.text
    assert set(json.loads(moved.json()["to"])["shards"]) == {"s0", "s1"}
    wrong = called.operate("POST", "/clients/reader/rewind", json={"to": "yesterday"})
    assert (wrong.status_code, wrong.json()["error"]) == (422, "ConfigError")
    assert called.operate("DELETE", "/clients/reader").json()["client_id"] == "reader"
    gone = called("GET", path)
    assert (gone.status_code, gone.json()["error"]) == (404, "NotFound")


def test_a_transaction_and_a_row_are_traced_by_operators(served: SharedShop, called: Http):
    assert called("GET", f"{called.base}/transactions/0-1-1").status_code == 403
    with served.connect() as consumer:
        served.write(0, 1)
        assert consumer.get_without_ack(timeout=60) is not None
        key = f"shop.orders:{served.written['s0'][-1]}"
        found = called.operate("GET", "/changes", params={"key": key, "shard": "s0", "within_bytes": 1 << 20})
        assert found.status_code == 200, found.text
        change = found.json()["changes"][-1]
        assert (change["shard"], change["op"]) == ("s0", "INSERT")
        traced = called.operate("GET", f"/transactions/{change['gtid']}").json()
        assert (traced["read_by"], traced["clients"][0]["state"]) == (["s0"], "outstanding")
        named = called.operate("GET", f"/transactions/{change['gtid']}", params={"shard": "s1"}).json()
        assert (named["found"], named["read_by"]) == (None, ["s1"]), "it has one of that number too"
    assert called.operate("GET", "/transactions/0-1-4000000").json()["found"] is None
    for path, status in (
        ("/transactions/nonsense", 400),
        ("/transactions/0-1-1?shard=s9", 404),
        ("/changes?key=nonsense", 400),
        (f"/changes?key={key}&shard=s9", 404),
        (f"/changes?key={key}&within_bytes=0", 400),
        ("/changes", 400),
    ):
        refused = called.operate("GET", path)
        assert (refused.status_code, bool(refused.json()["message"])) == (status, True), (path, refused.text)


@pytest.mark.soak
def test_two_operators_at_once_are_both_answered_and_logged(served: SharedShop, called: Http):
    """1. Policies from many threads: the state is one of them; 2. stop and start against each other."""
    with ThreadPoolExecutor(QUESTIONS_MAX) as pool:
        policies = ["hold", "skip", "resume", "hold"] * 4
        answers = list(
            pool.map(lambda policy: called.operate("POST", f"/shards/s0/{policy}").status_code, policies)
        )
        assert set(answers) == {200}
        assert called.operate("POST", "/shards/s0/resume").json()["policy"] is None
        changes = [
            ("stop", {"reason": "one"}),
            ("stop", {"reason": "other"}),
            ("start", None),
            ("start", None),
        ]
        codes = list(pool.map(lambda each: called.operate("POST", f"/{each[0]}", json=each[1]), changes))
    assert {each.status_code for each in codes} <= {200, 409, 503}, [each.text for each in codes]
    assert called.operate("POST", "/start").status_code == 200
    with served.connect():
        called.service._served()[served.destination].changed()
        assert called.state()["group"]["active"]
    lines = [json.loads(line) for line in called.audit_log.read_text().splitlines()]
    begun = sum(line["result"] == "begun" for line in lines)
    assert begun == len(lines) - begun == len(policies) + 1 + len(changes) + 1


def test_the_active_server_is_known_since_when(served: SharedShop, called: Http):
    def seen() -> list[dict[str, Any]]:
        called.service._served()[served.destination].changed()
        return list(called.state()["group"]["servers"])

    eventually(lambda: seen() and seen()[0]["active"], "the servers to be known")
    (one,) = seen()
    assert served.instance.uri.endswith(one["server"])
    assert 0 < called.state()["now_us"] - one["since_us"] < 3600e6
    assert called.samples()["canal_group_active_since_timestamp_seconds", f"destination={served.destination}"]


@pytest.mark.soak
def test_two_hundred_scrapes_a_second_take_no_memory(served: SharedShop, called: Http):
    """For ten seconds, each over a connection of its own: all are answered, or told to try again."""

    def scrape(number: int) -> int:
        time.sleep(max(0.0, begun_s + number / 200 - time.monotonic()))
        return int(called("GET", "/metrics").status_code)

    with ThreadPoolExecutor(32) as pool:
        begun_s = time.monotonic()
        list(pool.map(scrape, range(400)))
        before = _resident_bytes()
        begun_s = time.monotonic()
        codes = list(pool.map(scrape, range(2_000)))
    assert set(codes) <= {200, 503}
    assert codes.count(200) > 1_000
    assert _resident_bytes() - before < 32 << 20


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def test_many_scrapes_at_once_ask_the_actors_seldom(served: SharedShop, called: Http):
    one = called.service._served()[served.destination]
    asked = 0
    ask = one._state._ask

    def counted() -> dict[str, Any]:
        nonlocal asked
        asked += 1
        return ask()

    one._state._ask = counted
    with ThreadPoolExecutor(20) as pool:
        codes = list(pool.map(lambda _: called("GET", "/metrics").status_code, range(200)))
    assert set(codes) == {200}
    assert asked < 50


def test_a_contradicted_definition_is_an_event_until_it_is_rebuilt(unshared: SharedShop, tmp_path: Path):
    """The table was changed without being logged; the next statement on it shows that."""
    with listening(unshared, tmp_path) as called:
        _plays_a_contradiction(unshared, called)


def _plays_a_contradiction(served: SharedShop, called: Http) -> None:
    def events() -> list[str]:
        answer = called.operate("GET", "/history").json()
        return [each["what"] for each in answer["events"]]

    def contradicted() -> float:
        found = called.samples()
        name = "canal_group_shard_contradicted_definitions_total"
        return sum(value for key, value in found.items() if key[0] == name and "shard=s0" in key)

    def added() -> bool:
        """Read on, and say whether the row with the new column was there."""
        try:
            batch = consumer.get_without_ack(timeout=1)
            if batch is None:
                return False
            rows = batch.envelope()["after"].to_pylist()
            consumer.ack(batch.batch_id)
            return any("c" in dict(row or ()) for row in rows)
        except canal_group.RolledBack:
            return False

    table = "shop_0.pairs"
    served.servers[0].execute(f"CREATE TABLE {table} (a INT, b INT)", f"INSERT INTO {table} VALUES (1, 2)")
    with served.connect() as consumer:
        batch = consumer.get_without_ack(timeout=60)
        assert batch is not None
        consumer.ack(batch.batch_id)
        before = contradicted()
        events()
        served.servers[0].execute(
            "SET SESSION sql_log_bin = 0",
            f"ALTER TABLE {table} RENAME COLUMN a TO b, RENAME COLUMN b TO a",
            "SET SESSION sql_log_bin = 1",
            f"ALTER TABLE {table} ADD COLUMN c INT",
            f"INSERT INTO {table} VALUES (3, 4, 5)",
        )
        eventually(
            lambda: any("column 1 is `a` int, and the source shows `b` int" in each for each in events()),
            "the event",
        )
        assert contradicted() == before + 1
        Operator(served.instance.uri, served.destination).ask(calls.RebuildSchema("s0"))
        eventually(lambda: any(each == "shard s0 is streaming" for each in events()), "the shard goes on")
        # The next test drops the table: rows of it that are still unread would stop the shard.
        eventually(added, "the row that was held up", within_s=DEADLINE_S)
