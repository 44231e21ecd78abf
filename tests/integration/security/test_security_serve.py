"""What a `canal-group serve` process shows of itself: where it listens, what it logs, and never a secret."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import requests
from integration.processes import command_line, family, listening
from integration.serve_process import Serve
from integration.shop import CLIENT, DEADLINE_S, Reading, Shop
from integration.zookeeper_fixtures import eventually
from support.instance.program import run
from support.instance.secured_gateway import SECRETS, gateway_of
from support.security.certificates import Authority

import canal_group
from canal_group.actors.process.log_line import FIELDS
from playground.database.mariadb import MariaDbServer

#: of shards that are added, and cannot log in
WRONG_PASSWORD = "wrong-s3cret-6"
#: in the body of a request, where none belongs
PLAIN_PASSWORD = "plain-s3cret-7"
#: shown by strangers
WRONG_TOKEN = "stranger-s3cret-8"


@dataclass
class Served:
    """A `canal-group serve` process with all secrets there are."""

    serve: Serve
    shop: Shop
    gateway: str
    page: str
    folder: Path
    ca: Path
    secrets: list[str]

    @property
    def logged(self) -> list[dict[str, Any]]:
        """What it has logged."""
        return [json.loads(line) for line in list(self.serve.lines)]

    @property
    def processes(self) -> list[str]:
        """How it, and all that it has started, was called."""
        return [command_line(pid) for pid in family(self.serve.process.pid)]

    @property
    def session(self) -> Path:
        """Ray's folder."""
        words = (word for line in self.processes for word in line.split())
        return next(Path(word.partition("=")[2]).parent for word in words if "--log_dir=" in word)

    def call(self, method: str, path: str, token: str = SECRETS["OPS_TOKEN"], **body: Any) -> Any:
        """Call its REST API."""
        url = f"{self.page}/api/instances/{self.shop.destination}{path}"
        headers = {"Authorization": f"Bearer {token}"}
        return requests.request(method, url, headers=headers, json=body or None, timeout=DEADLINE_S)


@pytest.fixture(scope="module")
def served(two_servers: list[MariaDbServer], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    password = folder / "guarded"
    password.write_text("source-s3cret-5")
    wrong = folder / "added" / "wrong"
    wrong.parent.mkdir()
    wrong.write_text(WRONG_PASSWORD)
    for server in two_servers:
        server.start()
        server.execute(
            f"CREATE OR REPLACE USER guarded@'127.0.0.1' IDENTIFIED BY '{password.read_text()}'",
            "GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO guarded@'127.0.0.1'",
        )
    shop = Shop(two_servers, "", folder)
    authority = Authority(folder)
    shards = [
        {"name": f"s{index}", "host": "127.0.0.1", "port": server.port, "user": "guarded"}
        | {"password_file": str(password)}
        for index, server in enumerate(two_servers)
    ]
    instance = {
        "preset": "group",
        "destination": shop.destination,
        "shards": shards,
        "shard_add": {"hosts": ["127.0.0.1", "localhost"], "secrets": str(wrong.parent)},
        "coordination": {"user": "canal", "password_env": "ZOOKEEPER_PASSWORD"},
        "gateway": gateway_of(authority),
        "ray": {"num_cpus": 2},
    }
    file = folder / "shop.yaml"
    file.write_text(json.dumps(instance))
    log = ["--log-format", "json", "--log-level", "debug", "--audit-log", str(folder / "audit.jsonl")]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SECRETS.items():
            patch.setenv(name, value)
        with Serve("-c", str(file), "--http", "127.0.0.1:0", *log) as serve:
            page = json.loads(serve.says("page, metrics"))["message"].split()[-1]
            gateway = json.loads(serve.says("serving"))["message"].split()[-1]
            secrets = [*SECRETS.values(), password.read_text(), WRONG_PASSWORD, PLAIN_PASSWORD, WRONG_TOKEN]
            yield Served(serve, shop, gateway, page, folder, authority.ca, secrets)
            assert serve.end() == 0


def test_nothing_listens_beyond_this_machine(served: Served):
    """The gateway, the shards' doors for rows, the embedded ZooKeeper, and all of Ray's."""
    with canal_group.connect(
        served.gateway,
        destination=served.shop.destination,
        client_id=CLIENT,
        token=SECRETS["READER_TOKEN"],
        tls_ca=served.ca,
        wait_s=DEADLINE_S,
    ) as consumer:
        served.shop.write_everywhere(1)
        # Each shard opens its door when rows are asked for first.
        Reading(consumer).until(served.shop.rows)
    found = listening(family(served.serve.process.pid))
    port = int(served.gateway.rpartition(":")[2])
    assert port in {port for _, port in found}, "the gateway is among them"
    assert len(found) >= 6, "and so are two shards, ZooKeeper and Ray"
    beyond = {
        (address, port)
        for address, port in found
        if address.removeprefix("::ffff:") not in {"127.0.0.1", "::1"}
    }
    assert beyond == set()


def shards_of(lines: list[dict[str, Any]]) -> set[tuple[str, str]]:
    """Return of which destinations and shards lines are."""
    return {(line["destination"], line["shard"]) for line in lines}


def test_all_processes_log_json_lines_once_with_their_shard(served: Served):
    """1. every line is an object with its fields; 2. each shard's line is there once, under its name; 3. the
    group's has its epoch; 4. Ray's files have the same lines."""

    def told(message: str) -> list[dict[str, Any]]:
        return [line for line in served.logged if line["message"].startswith(message)]

    both = {(served.shop.destination, shard) for shard in ("s0", "s1")}
    eventually(lambda: shards_of(told("connected")) == both, "both shards to be read")
    for line in served.logged:
        assert list(line)[:4] == ["time", "level", "logger", "message"]
        assert set(line) <= {"time", "level", "logger", "message", "exception", *FIELDS}
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line["time"])
        assert datetime.fromisoformat(line["time"])
    # A shard that connects again, as when its dump ended on a busy machine, says so at another time.
    times = [(line["time"], line["shard"]) for line in told("connected")]
    assert len(times) == len(set(times))
    (active,) = told("active")
    assert (active["destination"], active["logger"]) == (
        served.shop.destination,
        "canal_group.actors.group.candidate",
    )
    assert active["epoch"] > 0
    files = [file.read_text(errors="replace") for file in served.session.glob("logs/worker-*.err")]
    assert sum(line == active for text in files for line in _objects(text)) == 1


def test_the_log_is_read_over_http_with_access_to_all_clients(served: Served):
    """1. an operator reads the actors' lines; 2. page by page, from the end; 3. a client that is allowed
    some client ids is refused, and so are a stranger, and a page that is too long."""

    def log(query: str = "", token: str = SECRETS["OPS_TOKEN"]) -> Any:
        return served.call("GET", f"/log{query}", token)

    def read() -> list[dict[str, Any]]:
        return [line for line in log("?lines=500").json()["lines"] if line["message"].startswith("connected")]

    both = {(served.shop.destination, shard) for shard in ("s0", "s1")}
    eventually(lambda: shards_of(read()) == both, "the shards' lines")
    last = log("?lines=2").json()
    before = log(f"?lines=2&before={last['before']}").json()
    numbers = [line["number"] for page in (before, last) for line in page["lines"]]
    whole = log(f"?lines=500&before={numbers[-1] + 1}").json()["lines"]
    assert [line["number"] for line in whole][-4:] == numbers
    for query, token, status in (
        ("", SECRETS["READER_TOKEN"], 403),
        ("", WRONG_TOKEN, 401),
        ("?lines=501", SECRETS["OPS_TOKEN"], 400),
        ("?before=0", SECRETS["OPS_TOKEN"], 400),
    ):
        assert log(query, token).status_code == status


def test_a_scrape_needs_a_token_where_the_gateway_does(served: Served):
    for token, status in (("", 401), (WRONG_TOKEN, 401), (SECRETS["READER_TOKEN"], 200)):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        for path in ("/metrics", "/api/instances", f"/api/instances/{served.shop.destination}/metrics"):
            answer = requests.get(served.page + path, headers=headers, timeout=DEADLINE_S)
            assert answer.status_code == status, (path, answer.text)
            if status != 200:
                assert "token is" in answer.json()["message"]
                assert answer.headers["WWW-Authenticate"] == "Bearer"
                assert served.shop.destination not in answer.text
    assert "canal_group_active" in answer.text or answer.json()
    for path in ("/live", "/ready", "/"):
        assert requests.get(served.page + path, timeout=DEADLINE_S).status_code == 200, path


def test_what_commands_change_is_in_the_audit_log_of_http(served: Served, monkeypatch: pytest.MonkeyPatch):
    """1. a command, allowed and refused; 2. the same over HTTP; 3. a stop mark, which any server sees."""
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    where = ["-d", served.shop.destination, "-g", served.gateway, "--tls-ca", str(served.ca)]
    run("shard", "hold", "s0", *where, "--token-env", "OPS_TOKEN")
    assert run("shard", "hold", "s9", *where, "--token-env", "OPS_TOKEN", status=1)
    run("shard", "hold", "s0", *where, "--token-env", "READER_TOKEN", status=1)
    assert served.call("POST", "/shards/s0/resume").status_code == 200
    assert served.call("POST", "/stop", reason="a test").status_code == 200

    def audit() -> list[dict[str, Any]]:
        lines = (served.folder / "audit.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def is_seen(operation: str) -> bool:
        return any(line["result"] == "seen" and line["operation"] == operation for line in audit())

    eventually(lambda: is_seen("stop"), "the mark")
    assert served.call("POST", "/start").status_code == 200
    eventually(lambda: is_seen("start"), "no mark")

    told = [(line["through"], line["operation"], line["result"].partition(":")[0]) for line in audit()]
    assert told[:6] == [
        ("gateway", "shard_policy", "begun"),
        ("gateway", "shard_policy", "done"),
        ("gateway", "shard_policy", "begun"),
        ("gateway", "shard_policy", "refused"),
        ("http", "shard_policy", "begun"),
        ("http", "shard_policy", "done"),
    ], "and nothing of what is not allowed"
    assert {line["who"] for line in audit()[:6]} == {"ops at 127.0.0.1"}
    assert (audit()[0]["shard"], audit()[0]["policy"]) == ("s0", "hold")
    stopped = next(line for line in audit() if (line["operation"], line["result"]) == ("stop", "seen"))
    assert stopped["who"] == "ops@http"
    assert "a test" in stopped["mark"]
    url = f"{served.page}/api/audit"
    shown = requests.get(url, headers={"Authorization": f"Bearer {SECRETS['OPS_TOKEN']}"}, timeout=DEADLINE_S)
    assert shown.json() == audit()


@pytest.mark.soak
def test_secrets_are_in_no_list_of_processes_no_status_and_no_log(
    served: Served, monkeypatch: pytest.MonkeyPatch
):
    """1. commands and requests that work, and that are refused; 2. sources that refuse a password, and that
    are not there; 3. all that is printed, that runs, that was logged, at the level `debug`."""
    for name, value in {**SECRETS, "STRANGER_TOKEN": WRONG_TOKEN}.items():
        monkeypatch.setenv(name, value)
    where = ["-d", served.shop.destination, "-g", served.gateway]
    tls = ["--tls-ca", str(served.ca)]
    ran = []

    def streaming() -> bool:
        ran.append(run("status", "--json", *where, *tls, "--token-env", "READER_TOKEN"))
        return [shard["state"] for shard in json.loads(ran[-1].stdout)["shards"]][:2] == ["streaming"] * 2

    eventually(streaming, "both shards to be read")
    for token in ("STOCK_TOKEN", "STRANGER_TOKEN"):
        options = ["--token-env", token, "--timeout", "1", "--log-level", "debug"]
        ran.append(run("consume", *where, *tls, *options, status=1))
        assert "AccessDenied" in ran[-1].stderr
    plain = ["-d", served.shop.destination, "-g", served.gateway.replace("grpc+tls", "grpc")]
    ran.append(run("status", *plain, "--token-env", "READER_TOKEN", status=1))
    assert "accepts TLS only" in ran[-1].stderr

    asked = [served.call("GET", "", token) for token in (SECRETS["READER_TOKEN"], WRONG_TOKEN)]
    assert [answer.status_code for answer in asked] == [200, 401]
    port = served.shop.servers[0].address().port
    server = {"host": "127.0.0.1", "user": "guarded"}
    shown = server | {"name": "told", "port": port, "password": PLAIN_PASSWORD}
    wrong = server | {"password_file": str(served.folder / "added" / "wrong")}
    asked += [
        served.call("POST", "/shards", shard=shown),
        served.call("POST", "/shards", shard={**wrong, "name": "refused", "host": "localhost", "port": port}),
        served.call("POST", "/shards", shard={**wrong, "name": "absent", "port": 1}),
    ]
    assert [answer.status_code for answer in asked[2:]] == [422, 200, 200], asked[3].text

    def said(shard: str, word: str) -> bool:
        lines = [line for line in served.logged if line.get("shard") == shard]
        return any(word in line["message"] for line in lines)

    eventually(lambda: said("refused", "Access denied"), "the source to refuse the password")
    eventually(lambda: said("absent", "Connection refused"), "the other source not to be there")
    asked += [served.call("DELETE", f"/shards/{name}?now=true") for name in ("refused", "absent")]
    asked.append(served.call("GET", "/log?lines=500"))
    assert "Access denied" in asked[-1].text

    files = [file for file in served.session.rglob("*") if file.is_file() and not file.is_symlink()]
    kept = {file: file.read_bytes().decode(errors="replace") for file in files}
    assert any("Access denied" in text for file, text in kept.items() if file.name.startswith("worker-"))
    audit = (served.folder / "audit.jsonl").read_text()
    assert "shard_add" in audit
    texts = [
        *served.processes,
        *kept.values(),
        audit,
        *served.serve.lines,
        *(done.stdout + done.stderr for done in ran),
        *(answer.text for answer in asked),
    ]
    for secret in served.secrets:
        assert not [text for text in texts if secret in text]
    assert not [line for line in served.serve.lines if "\x1b" in line], "a pipe is not a terminal"


def _objects(text: str) -> list[Any]:
    found = []
    for line in text.splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found
