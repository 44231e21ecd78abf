"""Records the shards that ship with the project anew: `make recorded`, or python -m playground.record.

Four real servers, MariaDB and MySQL by turns, are written to side by side by the demo's writers. What they
wrote from the empty tables on is kept: their binlog files, closed and in two parts, and what is needed to
prove a stream of them right. The older recording is replaced when the new one is whole.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from canal_group.programs.demo.instance import shard_name
from canal_group.programs.demo.recorded_shards import FOLDER, RECORD
from canal_group.programs.demo.replica import Rows
from canal_group.programs.demo.written import Record
from playground.database.engine import Engine
from playground.database.server_process import DatabaseServer
from playground.database.servers import make, start_all
from playground.load.held import read_tables
from playground.load.workload import Workload
from playground.load.writer import Writer, prepare

_SHARDS: Final = 4
#: small transactions of each shard: its files stay well below 100 kB
_TRANSACTIONS: Final = 70
#: transactions a second and shard: the shards' commits lie between each other
_RATE: Final = 40.0
_BIG_ROWS: Final = 150
_BYTES_MAX: Final = 100_000
_TIMEOUT_S: Final = 60.0


def main() -> None:
    """Record, and say what was recorded."""
    servers = make(Engine.MIXED, _SHARDS)
    with tempfile.TemporaryDirectory() as name:
        try:
            start_all(servers)
            for server in servers:
                # Files are read without a server: they have to say everything.
                server.execute("SET GLOBAL binlog_row_metadata = 'FULL'")
            _record(servers, Path(name))
        finally:
            for server in servers:
                server.close()
        shutil.rmtree(FOLDER, ignore_errors=True)
        shutil.copytree(name, FOLDER)
    for file in sorted(FOLDER.glob("*/*")):
        size = file.stat().st_size
        sys.stdout.write(f"{size:>8} {file.relative_to(FOLDER)}\n")
        if size >= _BYTES_MAX:
            raise RuntimeError(f"{file} is too large to ship: at most {_BYTES_MAX} bytes.")


def _record(servers: Sequence[DatabaseServer], folder: Path) -> None:
    names = [shard_name(shard) for shard in range(_SHARDS)]
    records = [prepare(server, shard, names[shard]) for shard, server in enumerate(servers)]
    # The schema and the empty tables stay in the first file, which is not recorded.
    begins = [_next_file(server) for server in servers]
    writers = [
        Writer(
            server,
            shard,
            Workload(
                shard=shard,
                shards=_SHARDS,
                seed=1,
                transactions=_TRANSACTIONS,
                gentle=_TRANSACTIONS,
                big_rows=_BIG_ROWS if shard == 0 else 0,
            ),
            records[shard],
            gentle_rate=_RATE,
            seconds=_TIMEOUT_S,
        )
        for shard, server in enumerate(servers)
    ]
    for writer in writers:
        writer.start()
    writers[0].join(_TRANSACTIONS / _RATE / 2)
    for server in servers:
        _next_file(server)
    for writer in writers:
        writer.join(_TIMEOUT_S)
        if writer.error is not None or not writer.done:
            raise RuntimeError(f"{writer.name} did not finish.") from writer.error
    ends = [_next_file(server) for server in servers]
    rows = read_tables(servers, names)
    for server, record, begin, end in zip(servers, records, begins, ends, strict=True):
        files = sorted(
            path for path in (server.folder / "data").glob("mysql-bin.0*") if begin <= path.name < end
        )
        _write(folder / record.shard, files, record, rows)


def _next_file(server: DatabaseServer) -> str:
    """Close the server's binlog file, and return the name of the next one."""
    server.execute("FLUSH BINARY LOGS")
    (*_, (name, *_)) = server.execute("SHOW BINARY LOGS")
    return str(name)


def _write(folder: Path, files: Sequence[Path], record: Record, rows: Rows) -> None:
    """Keep a shard: copies of its binlog files, its record, and those of `rows` that are its own."""
    folder.mkdir(parents=True)
    for file in files:
        (folder / file.name).write_bytes(file.read_bytes())
    transactions = [
        [[change.table, change.op, change.rows] for change in changes] for changes in record.transactions
    ]
    own = [[table, key, image] for (shard, table, key), image in rows.items() if shard == record.shard]
    (folder / RECORD).write_text(
        f'{{"gtid_source": {json.dumps(record.gtid_source)}, "first": {record.first},\n'
        f'"transactions": {_lines(transactions)},\n"rows": {_lines(own)}}}\n',
        encoding="utf-8",
    )


def _lines(values: Sequence[object]) -> str:
    """Return a JSON list, an entry a line."""
    return "[" + ",\n".join(json.dumps(value, ensure_ascii=False) for value in values) + "]"


if __name__ == "__main__":
    main()
