"""Recorded shards: binlog files that ship with the package, and what their servers did and held.

    recorded/shop-0/mysql-bin.000002 ...    the shard's binlog, as its server wrote it
    recorded/shop-0/record.json             what the writer committed, and the tables afterwards

Four real servers wrote them, MariaDB and MySQL by turns, while the demo's own writers were at work: see
`record`, which makes them anew.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from programs.demo.load.workload import Change
from programs.demo.load.writer import Record
from programs.demo.replica import Rows

FOLDER: Final = Path(__file__).parent / "recorded"
_RECORD: Final = "record.json"


@dataclass(frozen=True, slots=True)
class RecordedShard:
    """A shard that was recorded."""

    #: of its binlog files
    folder: Path
    #: what was committed
    record: Record
    #: what the server held afterwards, see `replica.read_tables`
    rows: Rows


def recorded_shards() -> list[RecordedShard]:
    """Return the recorded shards, by shard_index."""
    return [_read(each.parent) for each in sorted(FOLDER.glob(f"*/{_RECORD}"))]


def _read(folder: Path) -> RecordedShard:
    value = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
    record = Record(folder.name, value["gtid_source"], value["first"])
    for changes in value["transactions"]:
        record.add(tuple(Change(*change) for change in changes))
    rows = {(table, key): (folder.name, image) for table, key, image in value["rows"]}
    return RecordedShard(folder, record, rows)


def write(folder: Path, files: Sequence[Path], record: Record, rows: Rows) -> None:
    """Keep a shard: copies of its binlog files, its record, and those of `rows` that are its own."""
    folder.mkdir(parents=True)
    for file in files:
        (folder / file.name).write_bytes(file.read_bytes())
    transactions = [
        [[change.table, change.op, change.rows] for change in changes] for changes in record.transactions
    ]
    own = [[*name, image] for name, (shard, image) in rows.items() if shard == record.shard]
    (folder / _RECORD).write_text(
        f'{{"gtid_source": {json.dumps(record.gtid_source)}, "first": {record.first},\n'
        f'"transactions": {_lines(transactions)},\n"rows": {_lines(own)}}}\n',
        encoding="utf-8",
    )


def _lines(values: Sequence[object]) -> str:
    """Return a JSON list, an entry a line."""
    return "[" + ",\n".join(json.dumps(value, ensure_ascii=False) for value in values) + "]"
