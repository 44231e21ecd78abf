"""The README's consumer and its query, and an example, do what they say."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from integration.shared_servers import SharedShop
from integration.shop import DEADLINE_S
from integration.spark_sink import ROOT, options, show_a_row
from integration.zookeeper_fixtures import eventually
from support.instance.program import PROGRAM
from support.readme import block
from support.soak import patient

import canal_group


class Enough(Exception):  # noqa: N818  no error: the snippet reads for ever, and has read enough
    pass


def test_the_readmes_consumer_reads_and_acknowledges(
    served: SharedShop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    snippet = block("consumer")
    assert len(snippet.splitlines()) <= 10
    with served.connect(client_id="mirror") as consumer:
        begun = consumer.cursor.sequence
    served.write(0, 1, rows=3)
    snippet = snippet.replace("grpc://127.0.0.1:11113", served.instance.uri).replace(
        '"shop"', repr(served.destination)
    )
    acknowledge = canal_group.Consumer.ack

    def ack_once(self: canal_group.Consumer, batch_id: int) -> None:
        acknowledge(self, batch_id)
        raise Enough

    monkeypatch.setattr(canal_group.Consumer, "ack", ack_once)
    with pytest.raises(Enough):
        exec(snippet, {})
    monkeypatch.undo()
    with served.connect(client_id="mirror") as consumer:
        assert consumer.cursor.sequence == begun + 3
    assert capsys.readouterr().out.split()[1:] == ["3", "3"]


def test_the_readmes_relay_writes_lines(served: SharedShop, tmp_path: Path):
    """1. each row is a line, in order, as README shows one; 2. Ctrl-C ends it; 3. again, it goes on."""
    snippet = block("relay")
    assert len(snippet.splitlines()) <= 6
    file, changes = tmp_path / "relay.yaml", tmp_path / "changes.jsonl"
    file.write_text(
        snippet.replace("grpc://127.0.0.1:11113", served.instance.uri).replace(
            "destination: shop", f"destination: {served.destination}"
        )
    )
    with served.connect(client_id="to-file"):
        served.write(0, 1, rows=2)
    for _ in range(2):
        served.write(1, 1, rows=2)
        relay = subprocess.Popen(
            [*PROGRAM, "relay", "-c", str(file)], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        eventually(
            lambda: changes.exists() and len(changes.read_text().splitlines()) >= served.rows,
            "the lines",
            within_s=DEADLINE_S,
        )
        relay.send_signal(signal.SIGINT)
        printed, said = relay.communicate(timeout=DEADLINE_S)
        assert (relay.returncode, printed) == (0, "")
        assert "messages published" in said
    lines = [json.loads(line) for line in changes.read_text().splitlines()]
    for shard, ids in served.written.items():
        mine = [each["value"]["data"][0] for each in lines if each["headers"]["shard"] == shard]
        assert [int(row["id"]) for row in mine] == ids
    sample = json.loads(block("message"))
    assert list(sample) == list(lines[0])
    assert all(list(sample[part]) == list(lines[0][part]) for part in ("headers", "value"))


@pytest.mark.soak
@pytest.mark.timeout(patient(180))
def test_the_readmes_query_writes_parquet(
    spark: Any, served: SharedShop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snippet = block("query")
    assert len([line for line in snippet.splitlines() if line]) <= 10
    show_a_row(served, served.instance)
    chosen = options(served, served.instance)
    for name, value in (
        ("gateway", "grpc://127.0.0.1:11113"),
        ("destination", "shop"),
        ("client", "revenue"),
    ):
        snippet = snippet.replace(f'"{value}"', repr(chosen[name]))
    (evolving,) = re.findall(
        r"<!-- a test runs this on Spark, after the README's query -->\n```python\n(.*?)```",
        (ROOT / "docs" / "spark.md").read_text(),
        re.DOTALL,
    )
    for folder in ("orders", "checkpoint"):
        snippet, evolving = (
            text.replace(f'"{folder}"', repr(str(tmp_path / folder))) for text in (snippet, evolving)
        )
    known: dict[str, Any] = {}
    exec(snippet, known)
    assert spark.read.parquet(str(tmp_path / "orders")).count() == served.rows
    served.servers[0].execute(
        "ALTER TABLE shop_0.orders ADD COLUMN colour VARCHAR(10)",
        "INSERT INTO shop_0.orders VALUES (900, 'new', 1, 'red')",
    )
    exec(evolving, known)
    rows = spark.read.option("mergeSchema", True).parquet(str(tmp_path / "orders")).collect()
    written = {number: None for ids in served.written.values() for number in ids}
    assert {row.id: row.colour for row in rows} == {**written, 900: "red"}
    assert len(rows) == served.rows + 1


def test_the_parquet_example_writes_every_change_once(served: SharedShop, tmp_path: Path):
    """1. it writes what is there and ends when nothing comes; 2. run again, it goes on after its cursor."""
    folder = tmp_path / "orders"
    served.connect(client_id="parquet").close()
    command = [sys.executable, str(ROOT / "examples" / "to_parquet.py"), "--gateway", served.instance.uri]
    command += ["--destination", served.destination, "--table", "shop.orders", "--folder", str(folder)]
    for _ in range(2):
        served.write_everywhere(5, rows=2)
        subprocess.run([*command, "--idle", "3"], check=True, timeout=60)
    rows = pa.concat_tables(pq.read_table(file) for file in sorted(folder.iterdir()))
    assert sorted(rows["id"].to_pylist()) == sorted(served.written["s0"] + served.written["s1"])
    assert rows["_seq"].to_pylist() == sorted(rows["_seq"].to_pylist())
    assert not list(folder.glob("*.part"))
