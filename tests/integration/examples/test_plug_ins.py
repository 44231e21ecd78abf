"""The example package of plug-ins: installed as a user would, tested by the suites of the wheel, and run."""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from integration.serve_process import Serve
from integration.shop import DEADLINE_S
from support.deadline import await_true
from support.instance.program import PROGRAM

import canal_group
from canal_group.conf.plugins.entry_points import Group, load
from canal_group.programs.conformance.row_function import RowFunctionConformance
from canal_group.programs.conformance.sink import SinkConformance, Target
from canal_group.programs.conformance.store import StoreConformance
from canal_group.programs.output.kinds import settings_of, sink_of

EXAMPLE = Path(__file__).parents[3] / "examples" / "plugins"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder that the package is installed into, without a network."""
    folder = tmp_path_factory.mktemp("plug-ins")
    source = shutil.copytree(EXAMPLE, folder / "source", ignore=shutil.ignore_patterns("__pycache__"))
    target = folder / "installed"
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check")
    command = [sys.executable, "-m", "pip", "install", "-q", *options, "--target", str(target), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(target))
        yield target


@pytest.fixture
def module(installed, request):
    """Return the module of a plug-in, by its group and name."""
    return load(*request.cls.PLUG_IN)


class TestLookup(RowFunctionConformance):
    PLUG_IN = Group.PROCESSING, "lookup"

    @pytest.fixture
    def function(self, module, tmp_path):
        (tmp_path / "regions.csv").write_text("CH,Alps\nFR,Alps\nDK,North\n")
        settings = {"file": tmp_path / "regions.csv", "key": "country", "column": "region"}
        return module.FUNCTION(module.SETTINGS.model_validate(settings))

    @pytest.fixture
    def rows(self):
        return pa.RecordBatch.from_pydict({"country": ["CH", "DK", "SE", "FR"]})


class SqliteTarget(Target):
    topic = "orders"

    def __init__(self, path):
        self._settings = settings_of("sqlite").model_validate({"kind": "sqlite", "path": path})

    def sink(self, name="shop/1001"):
        return sink_of(self._settings, name)

    def held(self):
        with contextlib.closing(sqlite3.connect(self._settings.path)) as database:
            rows = database.execute("SELECT part, value, headers FROM messages ORDER BY rowid").fetchall()
        return [(part, value, json.loads(headers)) for part, value, headers in rows]


class TestSqliteOutput(SinkConformance):
    @pytest.fixture
    def target(self, installed, tmp_path):  # noqa: ARG002  it puts the package on the path
        return SqliteTarget(tmp_path / "changes.db")


class TestSqliteStore(StoreConformance):
    PLUG_IN = Group.STORES, "sqlite"

    @pytest.fixture
    def store(self, module, tmp_path):
        store = module.STORE(module.SETTINGS.model_validate({"path": tmp_path / "shop.db"}), "shop")
        yield store
        store.close()

    @pytest.fixture
    def elect(self):
        return itertools.count(1).__next__


@pytest.mark.soak
def test_a_served_instance_and_a_relay_run_plug_ins(installed, offline, instance_file, tmp_path, monkeypatch):
    """Its shards look up, its group keeps its cursors in the store, and a relay writes to the output."""
    monkeypatch.setenv("PYTHONPATH", str(installed))
    (tmp_path / "regions.csv").write_text("note 0,north\nnote 1,south\n")
    process = {"function": "lookup", "file": "regions.csv", "key": "note", "column": "region"}
    settings = yaml.safe_load(instance_file.read_text()) | {
        "cursor": {"kind": "sqlite", "path": "cursors.db"},
        "filter": {
            "white": r"shop_\d+\.orders",
            "routes": [{"match": r"shop_\d+\.(\w+)", "to": r"shop.\1"}],
            "tables": [{"match": r"shop_\d+\.orders", "process": process}],
        },
    }
    instance_file.write_text(yaml.safe_dump(settings))
    with Serve("-c", str(instance_file)) as serve:
        uri = serve.says("serving", "2 shards").split()[-1]
        who = {"destination": offline.destination, "wait_s": DEADLINE_S}
        with canal_group.connect(uri, client_id="1001", **who):
            pass
        with canal_group.connect(uri, client_id="reader", **who) as consumer:
            offline.write(0, 2)
            offline.servers[0].execute(
                "UPDATE shop_0.orders SET note = 'note 1' WHERE id = 0", "DELETE FROM shop_0.orders"
            )
            rows = read(consumer, 5)
        relay = tmp_path / "relay.yaml"
        output = {"kind": "sqlite", "path": "changes.db"}
        values = {"destination": offline.destination, "read": {"gateway": uri}, "output": output}
        relay.write_text(yaml.safe_dump(values))
        running = subprocess.Popen([*PROGRAM, "relay", "-c", str(relay)], stderr=subprocess.PIPE, text=True)
        try:
            await_true(lambda: len(changes(tmp_path / "changes.db")) == 5, "five changes")
        finally:
            running.send_signal(signal.SIGTERM)
            _, said = running.communicate(timeout=DEADLINE_S)
        assert running.returncode == 0, said
    region = [
        (row["op"], *(dict(row[side] or {}).get("region") for side in ("before", "after"))) for row in rows
    ]
    # A DELETE of both rows is two changes.
    assert region == [
        ("INSERT", None, "north"),
        ("INSERT", None, "south"),
        ("UPDATE", "north", "south"),
        ("DELETE", "south", None),
        ("DELETE", "south", None),
    ]
    assert [row["region"] for row in changes(tmp_path / "changes.db")] == [
        image for _, before, after in region for image in [after or before]
    ]
    with contextlib.closing(sqlite3.connect(tmp_path / "cursors.db")) as database:
        kept = dict(database.execute("SELECT name, text FROM stored WHERE kind = 'cursors'").fetchall())
    assert set(kept) == {"reader", "1001"}
    assert rows[-1]["file"] in kept["reader"], "the cursor is after what was acknowledged"


def read(consumer, count):
    rows = []
    while len(rows) < count:
        batch = consumer.get_without_ack(timeout=5)
        rows += batch.envelope().to_pylist()
        consumer.ack(batch.batch_id)
    return rows


def changes(path):
    """Return the rows of the flat messages in a database of the output."""
    if not path.exists():
        return []
    with contextlib.closing(sqlite3.connect(path)) as database:
        try:
            found = database.execute("SELECT value FROM messages ORDER BY rowid").fetchall()
        except sqlite3.OperationalError:
            return []  # It has no table yet.
    return [row for (value,) in found for row in json.loads(value)["data"]]
