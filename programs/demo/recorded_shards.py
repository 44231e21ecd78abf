"""Recorded shards: binlog files that ship with the package, and what their servers did and held.

    recorded/shop-0/mysql-bin.000002 ...    the shard's binlog, as its server wrote it
    recorded/shop-0/record.json             what the writer committed, and the tables afterwards

Four real servers wrote them, MariaDB and MySQL by turns; `make recorded` makes them anew.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from canal_group.programs.demo.replica import Rows
from canal_group.programs.demo.written import Change, Record

FOLDER: Final = Path(__file__).parent / "recorded"
RECORD: Final = "record.json"


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
    return [_read(each.parent) for each in sorted(FOLDER.glob(f"*/{RECORD}"))]


def _read(folder: Path) -> RecordedShard:
    value = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    record = Record(folder.name, value["gtid_source"], value["first"])
    for changes in value["transactions"]:
        record.add(tuple(Change(*change) for change in changes))
    rows = {(folder.name, table, key): image for table, key, image in value["rows"]}
    return RecordedShard(folder, record, rows)
