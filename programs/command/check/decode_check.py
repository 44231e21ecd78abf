"""What `canal-group check --decode` prints: the rows of recent binlogs, read by two decoders and compared.

The decoders are this project's and mysql-replication's. What the second cannot read, or is known to read
otherwise, is named and counted, not compared. Output for people fits 80 columns; with --json one object a
shard:

    {"shard", "ok", "transactions", "rows", "values", "rows_not_compared": {class: rows},
     "values_not_compared": {class: values}, "difference": {"file", "offset", "table", "column", "ours",
     "theirs"}, "error"}
"""

from __future__ import annotations

import contextlib
import json
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from canal_group.actors.shard.wiring import shard_source
from canal_group.actors.sink.route import Route
from canal_group.actors.sink.sink import Sink
from canal_group.binlog.columns.table_lookup import NoLookup, TableLookup
from canal_group.binlog.files.files_reader import FilesSource, listed
from canal_group.binlog.formats.binlog_file import BinlogFile
from canal_group.binlog.second_opinion.comparison import Opinion, second_opinion
from canal_group.binlog.second_opinion.tail import tail_of_files, tail_of_server
from canal_group.binlog.server.server_lookup import ServerLookup
from canal_group.binlog.server.source import SourceAddress, connect
from canal_group.conf.settings import InstanceSettings
from canal_group.merge.errors import CanalGroupError

_WIDTH: Final = 80
#: longest value that is printed, characters
_VALUE_CHARS_MAX: Final = 300

Source = SourceAddress | FilesSource | Sequence[BinlogFile]


@dataclass(frozen=True, slots=True)
class _Result:
    """The comparison of one shard's rows."""

    shard: str
    opinion: Opinion = field(default_factory=Opinion)
    #: why the rows could not be read; empty: they were
    error: str = ""

    @property
    def ok(self) -> bool:
        return not self.error and self.opinion.difference is None


def check_decoding(
    settings: InstanceSettings,
    files: Sequence[Path],
    bytes_max: int,
    write: Callable[[str], object],
    *,
    as_json: bool,
) -> bool:
    """Compare the last part of each shard's binlog; return whether both decoders read the same.

    Args:
        settings: of the instance; its filter chooses the tables.
        files: binlog files or one folder to read instead of the shards'; empty: the shards'.
        bytes_max: how much of each binlog to read.
        write: takes one line.
        as_json: whether to print JSON objects.
    """
    sources: list[tuple[str, Source]] = [
        (shard.name, shard_source(settings, shard)) for shard in settings.shards
    ]
    if files:
        sources = [("files", [each for path in files for each in _listed(path)])]
    ok = True
    for name, source in sources:
        found = _compared(settings, name, source, bytes_max)
        ok &= found.ok
        for line in [json.dumps(_as_json(found))] if as_json else _lines(found):
            write(line)
    return ok


def _listed(path: Path) -> Sequence[BinlogFile]:
    return listed(str(path)) if path.is_dir() else [path]


def _compared(settings: InstanceSettings, name: str, source: Source, bytes_max: int) -> _Result:
    chosen = settings.filter
    sink = Sink(chosen.white, chosen.black, [Route(each.match, each.to) for each in chosen.routes])
    try:
        with tempfile.TemporaryDirectory(prefix="canal-group-decode-") as folder, _lookup(source) as lookup:
            tail = _tail(source, Path(folder), bytes_max)
            return _Result(name, second_opinion(tail, sink.select, lookup=lookup))
    except CanalGroupError as error:
        return _Result(name, error=str(error))


def _tail(source: Source, folder: Path, bytes_max: int) -> Sequence[BinlogFile]:
    if isinstance(source, SourceAddress):
        return tail_of_server(source, folder, bytes_max)
    files = listed(source.files, source.key_file) if isinstance(source, FilesSource) else source
    return tail_of_files(files, folder, bytes_max)


@contextlib.contextmanager
def _lookup(source: Source) -> Iterator[TableLookup]:
    """Yield what describes tables: the source itself, the server of a shard of files, or nothing."""
    address = source.lookup if isinstance(source, FilesSource) else source
    if not isinstance(address, SourceAddress):
        yield NoLookup()
        return
    with contextlib.closing(connect(address)) as connection:
        yield ServerLookup(address, connection)


def _as_json(found: _Result) -> dict[str, Any]:
    opinion, differs = found.opinion, found.opinion.difference
    return {
        "shard": found.shard,
        "ok": found.ok,
        "transactions": opinion.transactions,
        "rows": opinion.rows,
        "values": opinion.values,
        "rows_not_compared": dict(opinion.rows_left),
        "values_not_compared": dict(opinion.values_left),
        "difference": None
        if differs is None
        else {
            "file": differs.position.file,
            "offset": differs.position.offset,
            "table": differs.table,
            "column": differs.column,
            "ours": differs.ours,
            "theirs": differs.theirs,
        },
        "error": found.error or None,
    }


def _lines(found: _Result) -> Iterator[str]:
    opinion, differs = found.opinion, found.opinion.difference
    label = "ok   " if found.ok else "FAIL "
    if found.error:
        yield from _wrapped(f"{label} {found.shard}: decoding: {found.error}")
        return
    yield from _wrapped(
        f"{label} {found.shard}: decoding: {opinion.rows} rows and {opinion.values} values of "
        f"{opinion.transactions} transactions are equal to mysql-replication's"
    )
    for what, left in (("rows", opinion.rows_left), ("values", opinion.values_left)):
        for kind, count in sorted(left.items()):
            yield from _wrapped(f"      not compared: {count} {what}: {kind}")
    if differs is not None:
        where = f"{differs.position.file}:{differs.position.offset}"
        column = f", column {differs.column}" if differs.column else ""
        yield from _wrapped(f"      first difference: {where}, table {differs.table}{column}")
        yield from _wrapped(f"      ours:   {_short(differs.ours)}")
        yield from _wrapped(f"      theirs: {_short(differs.theirs)}")


def _short(value: str) -> str:
    left = len(value) - _VALUE_CHARS_MAX
    return value if left <= 0 else f"{value[:_VALUE_CHARS_MAX]}... ({left} characters more)"


def _wrapped(line: str) -> list[str]:
    return textwrap.wrap(line, _WIDTH, subsequent_indent=" " * 8) or [line]
