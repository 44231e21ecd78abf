"""README as a stranger follows it: each code block is run as printed, by its ports and passwords."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import requests
import typer
from integration.group_fixtures import all_started
from integration.shop import DEADLINE_S
from integration.stranger import COMMAND, PASSWORD, WIDTH, OwnServer, Stranger, words
from support.readme import ELSEWHERE, NAMES, README, ROOT, block, blocks
from support.soak import patient
from unit.migration.canal_files import Conf

from canal_group.programs.command.cli import app


def test_each_block_of_readme_has_a_test():
    found = {heading: len(texts) for heading, texts in blocks(README.read_text()).items()}
    assert found == {heading: len(names) for heading, names in NAMES.items()}, "name it, and run it here"
    here = Path(__file__).read_text() + (ROOT / "tests/integration/stranger.py").read_text()
    names = [name for names in (*NAMES.values(), *ELSEWHERE.values()) for name in names]
    unused = [name for name in names if f'block("{name}")' not in here]
    assert unused == ["picture"]


def test_readme_names_targets_extras_and_commands_that_exist():
    for line in block("make").splitlines():
        subprocess.run([*words(line), "-n"], cwd=ROOT, check=True, capture_output=True)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    installs = [words(line) for line in block("pip").splitlines()]
    assert {tuple(each[:2]) for each in installs} == {("pip", "install")}
    assert {each[2] for each in installs} <= {"canal-group", *(f"canal-group[{extra}]" for extra in extras)}
    group = typer.main.get_command(app)
    lines = [line for name in ("commands", "relay command", "import") for line in block(name).splitlines()]
    called = [words(line)[1:] for line in lines if line.startswith(COMMAND)]
    assert len(called) == 8
    for name, *arguments in called:
        command = group.commands[name]  # type: ignore[attr-defined]
        with command.make_context(name, arguments) as context:
            assert context.command is command


def like(line: str) -> str:
    """Return a pattern of lines that have the same words, with any numbers and blanks."""
    parts = [re.escape(part) for part in re.split(r"[\s\d.,:]+", line)]
    return r"[\s\d.,:]*".join(parts)


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[Stranger]:
    with all_started(OwnServer(1), OwnServer(2)) as servers:
        for index, server in enumerate(servers):
            server.execute(
                "DROP USER canal@127.0.0.1",
                f"CREATE DATABASE shop_{index}",
                f"CREATE TABLE shop_{index}.orders_{index}"
                " (id BIGINT PRIMARY KEY, note VARCHAR(200), price DECIMAL(10,2))",
            )
        yield Stranger(tmp_path, servers)  # type: ignore[arg-type]


@pytest.mark.soak
def test_the_demo_prints_what_readme_shows(tmp_path: Path):
    line = block("make").splitlines()[0]
    assert words(line) == ["make", "demo", "ARGS=--files"]
    command = [sys.executable, "-m", "playground", "--files"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=DEADLINE_S)
    lines = iter(done.stdout.splitlines())
    for shown in filter(None, map(str.strip, block("demo").splitlines())):
        if shown != "...":
            pattern = re.compile(like(shown))
            assert any(pattern.fullmatch(line.strip()) for line in lines), shown


@pytest.mark.soak
@pytest.mark.timeout(patient(400))
def test_readme_works_as_printed(stranger: Stranger):
    prepare(stranger)
    export, check, serve, consume, status, stop = block("commands").splitlines()
    stranger.export(export)
    assert all(line.startswith("ok") for line in stranger.run(check).splitlines())
    with stranger.running(serve) as served:
        look(stranger, served.says(": serving"), consume, status)
        copy(stranger)
        assert "stopped by" in stranger.run(stop)
        assert "may be served again" in stranger.run(stop.replace("stop", "start", 1))
        consumer(stranger)
        query(stranger)
        relay(stranger)


def prepare(stranger: Stranger) -> None:
    """Create the account on each server, dump what is there, and write shop.yaml with where the dumps end."""
    text = stranger.own(block("instance")) + f"gateway: {{port: {stranger.gateway.rpartition(':')[2]}}}\n"
    for index, server in enumerate(stranger.servers):
        server.execute(*filter(None, map(str.strip, stranger.own(block("account")).split(";"))))
        stranger.insert(1, shard=index)
        name = f"shard{index + 1}"
        start = dumped(stranger, index, name)
        assert text.count(f"name: {name}, ") == 1
        text = text.replace(f"name: {name}, ", f"name: {name}, start: '{start}', ")
        stranger.insert(2, shard=index)
    stranger.write("shop.yaml", text)


def dumped(stranger: Stranger, index: int, name: str) -> str:
    """Dump a shard, by mariadb-dump where it is installed, and return where README says that it ends."""
    dump, find = block("dump").splitlines()
    file = stranger.folder / f"{name}.sql"
    server = stranger.servers[index]
    ((log, offset, *_),) = server.execute("SHOW MASTER STATUS")
    if shutil.which("mariadb-dump"):
        (stranger.folder / ".my.cnf").write_text(
            f"[client]\nsocket={server.socket_path}\nuser=root\npassword={server.password}\n"
        )
        line = dump.replace("shop_0", f"shop_{index}").replace("shard1", name)
        subprocess.run(["bash", "-ec", line], cwd=stranger.folder, env=stranger.variables, check=True)
    else:
        file.write_text(f"-- CHANGE MASTER TO MASTER_LOG_FILE='{log}', MASTER_LOG_POS={offset};\n")
    found = subprocess.check_output(
        ["bash", "-ec", find.replace("shard1", name)], cwd=stranger.folder, text=True
    )
    assert re.fullmatch(like(find.partition("# ")[2]), found.strip())
    assert found.strip() == f"MASTER_LOG_FILE='{log}', MASTER_LOG_POS={offset}"
    return f"{log}:{offset}"


def look(stranger: Stranger, served: str, consume: str, status: str) -> None:
    """Look at the changes, the state, the page and the metrics."""
    with stranger.running(consume, status=130) as changes:
        lines = [json.loads(line) for line in changes.says('"shard2"').splitlines()]
    assert {(each["shard"], each["table"], each["after"]["id"]) for each in lines} == {
        ("shard1", "orders", "2"),
        ("shard2", "orders", "2"),
    }, "what is in the dumps does not come"
    state = stranger.run(status)
    assert re.search(r"(?m)^shard1 +streaming .*\n(?s:.*)^shard2 +streaming ", state), state
    assert max(map(len, state.splitlines())) <= WIDTH
    (page,) = re.findall(r"http://[\d.]+:\d+", served)
    for path in ("/", "/metrics", "/api/instances"):
        assert requests.get(page + path, timeout=DEADLINE_S).ok


def copy(stranger: Stranger) -> None:
    """Begin with the rows that there are, by the grant and the command that stand in the text."""
    text = README.read_text()
    (grant,) = re.findall(r"`(GRANT SELECT .*?)`", text)
    (command,) = re.findall(r"`canal-group (consume .* --snapshot .*?)`", text)
    for index, server in enumerate(stranger.servers):
        server.execute(grant.replace("shop_0", f"shop_{index}"))
    with stranger.running(f"{COMMAND} {command}", status=130) as rows:
        lines = [json.loads(line) for line in rows.says('"READ"', times=4).splitlines()]
    read = [(each["shard"], each["after"]["id"]) for each in lines if each["op"] == "READ"]
    assert sorted(read) == [(f"shard{shard}", str(number)) for shard in (1, 2) for number in (1, 2)]


def consumer(stranger: Stranger) -> None:
    """Run the consumer, and again: it goes on after what it has acknowledged."""
    assert len(block("consumer").splitlines()) <= 10
    stranger.write("mirror.py", block("consumer"))
    for number in (3, 4):
        # Ctrl-C in a loop of one's own ends it as Python does.
        with stranger.running(".venv/bin/python mirror.py", status=-signal.SIGINT) as rows:
            rows.until(lambda: "client mirror" in stranger.run(f"{COMMAND} status -d shop"), "the consumer")
            stranger.insert(number, shard=0)
            rows.says(" 1 1\n")


def query(stranger: Stranger) -> None:
    """Run the query, and again: it writes what was committed since."""
    assert len(list(filter(None, block("query").splitlines()))) <= 10
    stranger.write("revenue.py", block("query"))
    for number in (5, 6):
        stranger.run(".venv/bin/python revenue.py")
        stranger.insert(number, shard=1)
    stranger.run(".venv/bin/python revenue.py")
    files = sorted((stranger.folder / "orders").glob("*.parquet"))
    numbers = sorted(number for file in files for number in pq.read_table(file)["id"].to_pylist())
    assert [number for number in numbers if number >= 5] == [5, 6]


def relay(stranger: Stranger) -> None:
    """Run the relay, and again: each change is a line, once, as README shows one."""
    stranger.write("relay.yaml", block("relay"))
    changes = stranger.folder / "changes.jsonl"
    for number in (7, 8):
        stranger.insert(number, shard=0)
        with stranger.running(block("relay command").rstrip()) as relaying:
            relaying.until(partial(holds, changes, rf'"id": ?"{number}"'), "the line")
    lines = [json.loads(line) for line in changes.read_text().splitlines()]
    inserted = [each for each in lines if each["value"]["type"] == "INSERT"]
    assert sorted(int(each["value"]["data"][0]["id"]) for each in inserted) == [1, 1, 2, 2, 3, 4, 5, 6, 7, 8]
    shown = json.loads(block("message"))
    (same,) = [each for each in inserted if each["value"]["data"] == shown["value"]["data"]]
    assert shape(same) == shape(shown)


def holds(file: Path, pattern: str) -> bool:
    return file.exists() and re.search(pattern, file.read_text()) is not None


def shape(value: Any) -> Any:
    """Return a value with its numbers, also those inside of texts, made one."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items()}
    if isinstance(value, list):
        return [shape(each) for each in value]
    if isinstance(value, str):
        return re.sub(r"\d+", "0", value)
    return 0 if type(value) is int else value


@pytest.mark.soak
def test_canals_instances_are_served_at_one_port_as_printed(stranger: Stranger):
    """Two of canal's instances are imported, and a client of canal reads each of them at one port."""
    for server in stranger.servers:
        server.execute(*filter(None, map(str.strip, stranger.own(block("account")).split(";"))))
    conf = Conf(stranger.folder / "conf")
    conf.folder.mkdir()
    conf.server(port=stranger.canal.rpartition(":")[2], destinations="shop0,shop1")
    for index, server in enumerate(stranger.servers):
        conf.instance(f"shop{index}", master__address=f"127.0.0.1:{server.port}", dbPassword=PASSWORD)
    imports, serve, export, client = block("import").splitlines()
    assert "next: canal-group check" in stranger.run(imports)
    with (stranger.folder / "served" / "server.yaml").open("a") as shared:
        shared.write(f"gateway: {{port: {stranger.gateway.rpartition(':')[2]}}}\n")
    stranger.export(export)
    with stranger.running(serve) as served:
        served.says(": serving", times=2)
        with stranger.running(client, status=-signal.SIGINT) as first:
            again = client.replace("shop0", "shop1")
            assert again != client
            with stranger.running(again, status=-signal.SIGINT) as second:
                for index, reader in enumerate((first, second)):
                    status = f"{COMMAND} status -d shop{index}"
                    reader.until(lambda status=status: "client 1001" in stranger.run(status), "the client")
                    stranger.insert(1, shard=index)
                assert "'id': '1'" in first.says("shop_0.orders_0 INSERT after")
                assert "'id': '1'" in second.says("shop_1.orders_1 INSERT after")
