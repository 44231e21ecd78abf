"""The README's consumer and the examples do what they say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from integration.shop import Shop

import canal_group

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"


class Enough(Exception):  # noqa: N818  no error: the snippet reads for ever, and has read enough
    pass


def test_the_readmes_consumer_reads_and_acknowledges(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (snippet,) = re.findall(r"<!-- a test runs this -->\n```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(snippet.strip().splitlines()) <= 10
    with shop.serve() as instance:
        shop.connect(instance, client_id="mirror").close()
        shop.write(0, 1, rows=3)
        snippet = snippet.replace("grpc://127.0.0.1:11113", instance.uri).replace(
            '"shop"', repr(shop.destination)
        )
        acknowledge = canal_group.Consumer.ack

        def ack_once(self: canal_group.Consumer, batch_id: int) -> None:
            acknowledge(self, batch_id)
            raise Enough

        monkeypatch.setattr(canal_group.Consumer, "ack", ack_once)
        with pytest.raises(Enough):
            exec(snippet, {})
        monkeypatch.undo()
        with shop.connect(instance, client_id="mirror") as consumer:
            assert consumer.cursor.sequence == 3
    assert capsys.readouterr().out.split()[1:] == ["3", "3"]


def test_the_parquet_example_writes_every_change_once(shop: Shop, tmp_path: Path):
    """1. it writes what is there and ends when nothing comes; 2. run again, it goes on behind its cursor."""
    folder = tmp_path / "orders"
    with shop.serve() as instance:
        shop.connect(instance, client_id="parquet").close()
        command = [sys.executable, str(ROOT / "examples" / "to_parquet.py"), "--gateway", instance.uri]
        command += ["--destination", shop.destination, "--table", "shop.orders", "--folder", str(folder)]
        for _ in range(2):
            shop.write_everywhere(5, rows=2)
            subprocess.run([*command, "--idle", "3"], check=True, timeout=60)
    rows = pa.concat_tables(pq.read_table(file) for file in sorted(folder.iterdir()))
    assert sorted(rows["id"].to_pylist()) == sorted(shop.written["s0"] + shop.written["s1"])
    assert rows["_seq"].to_pylist() == sorted(rows["_seq"].to_pylist())
    assert not list(folder.glob("*.part"))
