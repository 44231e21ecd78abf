"""What `canal-group binlog` prints: the transactions, rows and events that binlog files hold.

There are two formats. For people: a line for each transaction, below it a line for each row change, and
counts at the end. With --json: one object a line, for each row change and each statement:

    {"file", "pos", "gtid", "schema", "table", "op", "before": {...}, "after": {...}}

`op` is INSERT, UPDATE or DELETE. `before` and `after` map columns to canal's text values
(`canal_group.merge.rows.text`); an image that does not exist is null. An image lacks the columns that the
event does not have, see `canal_group.merge.values.rows.absent`. `pos` is where the transaction begins, as in
every other output of this project. A DDL statement has canal's name of its kind as `op` (CREATE, ALTER, ...),
no images, and also `sql`.

Any other statement is printed because its rows are in no event, and has STATEMENT as `op`:

- a statement that changed rows (`binlog_format` STATEMENT or MIXED);
- a ROLLBACK or ROLLBACK TO after rows that are in the file, because tables without transactions keep theirs;
- an XA COMMIT whose rows are in an earlier file. Rows of an XA transaction are printed where it commits.

One sentence each goes to stderr: on the end of a file that is in use, see `file_tail`; on zero or impossible
dates, which are null as everywhere in this project; on strings with bytes that are invalid in their charset;
on events that were ignored; on XA transactions that are left prepared; on a transaction that is printed in
part.

Columns that a file does not name are called @1, @2 and so on, unless a server is asked for them. Both a
transaction payload and the events inside it are counted.

A transaction may have several parts: its header is printed with the first one.

Binlog changes: the changes of each transaction of a chunk, in order, as text to be printed.

Values are canal's text (`canal_group.merge.rows.text`). Strings of unknown charset are printed as UTF-8 if
they are valid, otherwise as ISO-8859-1.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from canal_group.actors.shard.wiring import address_of
from canal_group.binlog.columns.table_lookup import NoLookup, TableLookup
from canal_group.binlog.files.binlog_files import BinlogFiles, gap_in
from canal_group.binlog.files.files_reader import listed
from canal_group.binlog.formats.binlog_file import BinlogFile
from canal_group.binlog.formats.event_types import type_name
from canal_group.binlog.server.server_lookup import ServerLookup
from canal_group.binlog.server.source import SourceAddress, connect
from canal_group.conf.shard_settings import ShardSettings
from canal_group.conf.stream_settings import ReaderSettings
from canal_group.conf.value import default_of
from canal_group.merge.errors import UsageError
from canal_group.merge.rows.text import text
from canal_group.merge.values.chunk import Chunk, Op, StatementKind, TableName, mysql_type_of
from canal_group.merge.values.header import Flag, gtid_text
from canal_group.merge.values.rows.absent import absent_in
from canal_group.programs.command.json_line import json_line

#: the operation of a statement that is not DDL and whose rows are in no event
STATEMENT = "STATEMENT"

#: column name -> value as text
Image = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Change:
    """A row change or a statement, as printed."""

    #: INSERT, UPDATE or DELETE of a row; canal's name for a kind of DDL; STATEMENT
    op: str
    name: TableName
    before: Image | None = None
    after: Image | None = None
    sql: str | None = None
    #: of a statement: its session's database
    ddl_schema: str = ""


def transactions(chunk: Chunk) -> Iterator[tuple[Any, list[Change]]]:
    """Yield each header with its changes, in order."""
    found: dict[int, list[tuple[int, Change]]] = {}
    for table in chunk.tables:
        for header, row, change in _row_changes(table.name, table.rows):
            found.setdefault(header, []).append((row, change))
    statements = chunk.statements.to_pylist() if chunk.statements is not None else ()
    for each, source in zip(statements, chunk.statement_sources, strict=True):
        op = STATEMENT if source.kind is StatementKind.ROWS else each["op"]
        change = Change(
            op, TableName(each["schema"], each["table"]), sql=each["sql"], ddl_schema=each["ddl_schema"]
        )
        found.setdefault(each["_header"], []).append((each["_row"], change))
    for index, header in enumerate(chunk.headers):
        yield header, [change for _, change in sorted(found.get(index, ()), key=lambda each: each[0])]


def _row_changes(name: TableName, rows: Any) -> Iterator[tuple[int, int, Change]]:
    before, after = (_images(rows, image) for image in ("before", "after"))
    keys = zip(*(rows.column(column).to_pylist() for column in ("_header", "_row", "_op")), strict=True)
    for (header, row, op), old, new in zip(keys, before, after, strict=True):
        yield header, row, Change(Op(op).name, name, old, new)


def _images(changes: Any, image: str) -> list[Image | None]:
    images, absent = changes.column(image), absent_in(changes, image)
    columns = [_texts(pc.struct_field(images, [index]), column) for index, column in enumerate(images.type)]
    names = [column.name for column in images.type]
    rows = zip(*columns, strict=True) if columns else iter([()] * len(images))
    valid = images.is_valid().to_numpy(zero_copy_only=False)
    shown: list[Image | None] = [
        dict(zip(names, row, strict=True)) if is_there else None
        for row, is_there in zip(rows, np.asarray(valid), strict=True)
    ]
    if absent is None:
        return shown
    return [
        whole and {name: value for (name, value), no in zip(whole.items(), gone, strict=True) if not no}
        for whole, gone in zip(shown, absent, strict=True)
    ]


def _texts(values: Any, column: pa.Field) -> list[str | None]:
    if column.name.startswith("@") and pa.types.is_binary(values.type):
        return [None if value is None else _guessed(value) for value in values.to_pylist()]
    texts: list[str | None] = text(values, mysql_type_of(column)).to_pylist()
    return texts


def _guessed(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


class Lines(Protocol):
    """Prints transactions, in order."""

    def of(self, chunk: Chunk, header: Any, changes: Sequence[Change]) -> Iterator[str]:
        """Yield the lines of a transaction, or of a part of one.

        Args:
            chunk: the chunk that holds it.
            header: its record of `canal_group.merge.values.header.HEADER`.
            changes: its changes, in order.
        """


class JsonLines:
    """Prints a JSON object for each change."""

    def of(self, chunk: Chunk, header: Any, changes: Sequence[Change]) -> Iterator[str]:
        """Yield a line for each change; see `Lines`."""
        position = {
            "file": chunk.names[int(header["file"])],
            "pos": int(header["begin_offset"]),
            "gtid": _gtid(chunk, header),
        }
        for change in changes:
            shown: dict[str, Any] = {
                **position,
                "schema": change.name.schema,
                "table": change.name.table,
                "op": change.op,
                "before": change.before,
                "after": change.after,
            }
            if change.sql is not None:
                shown |= {"sql": change.sql, "ddl_schema": change.ddl_schema}
            yield json_line(shown)


class TextLines:
    """Prints a header for each transaction, with the number of its changes, and below it the changes.

    If a transaction has several parts, the number of its changes is printed at its end.
    """

    def __init__(self) -> None:
        #: changes of the last transaction, so far
        self._changes = 0

    def of(self, chunk: Chunk, header: Any, changes: Sequence[Change]) -> Iterator[str]:
        """Yield the lines of a transaction, or of a part of one; see `Lines`."""
        flags, count = Flag(int(header["flags"])), int(header["rows"])
        begins, ends = Flag.BEGIN in flags, Flag.END in flags
        self._changes = count if begins else self._changes + count
        if begins:
            yield _head(chunk, header) + (f"  {count} changes" if ends else "")
        for change in changes:
            images = [json_line(image) for image in (change.before, change.after) if image is not None]
            yield f"    {change.op} {change.name}  {change.sql or ' -> '.join(images)}"
        if ends and not begins:
            yield f"    {self._changes} changes in this transaction"


def _head(chunk: Chunk, header: Any) -> str:
    commit = datetime.fromtimestamp(int(header["commit_us"]) / 1_000_000, UTC)
    file, begin = chunk.names[int(header["file"])], int(header["begin_offset"])
    return f"{file}:{begin}  {commit:%Y-%m-%d %H:%M:%S.%f}  {_gtid(chunk, header) or 'no gtid'}"


def _gtid(chunk: Chunk, header: Any) -> str:
    return gtid_text(chunk.names[int(header["gtid_source"])], int(header["gtid_number"]))


_SERVER = re.compile(r"(?P<user>[^@]+)@(?P<host>\[[^]]+\]|[^:@\[\]]+)(:(?P<port>\d{1,5}))?")

Write = Callable[[str], object]


def show(
    paths: list[Path], write: Write, *, note: Write, as_json: bool, lookup: SourceAddress | None = None
) -> None:
    """Print the content of files, in order.

    Args:
        paths: binlog or relay-log files; a folder means the binlogs in it.
        write: takes one line.
        note: takes one sentence about data that was not printed, or was printed differently.
        as_json: whether to print JSON objects.
        lookup: the server to ask for table metadata that the files lack; None: no server.

    Raises:
        SourceUnavailable, SourceUnfit: that server does not answer; nothing was printed.
        UsageError: a number is missing among a folder's files; nothing was printed.
        CorruptEvent, UnsupportedEvent, UsageError: see `BinlogFiles`; everything before the error was
            printed.
    """
    files = [file for path in paths for file in (_files_of(path) if path.is_dir() else [path])]
    if lookup is None:
        _show(files, write, note, NoLookup(), as_json=as_json)
        return
    with contextlib.closing(connect(lookup)) as connection:
        _show(files, write, note, ServerLookup(lookup, connection), as_json=as_json)


def server_at(text: str, password: str, ca: Path | None = None) -> SourceAddress:
    """Return the server that `user@host:port` names; the default port is 3306, an IPv6 host is in brackets.

    Args:
        text: the server's name.
        password: the user's password.
        ca: authorities that sign its certificate, which is then verified together with the host name; None:
            no TLS.

    Raises:
        UsageError: the text does not name a server.
    """
    match = _SERVER.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} does not name a server.", hint="Expected user@host:port.")
    host = match["host"].strip("[]")
    port = int(match["port"] or default_of(ShardSettings, "port"))
    ssl = None if ca is None else {"ca": str(ca), "verify": True}
    return replace(
        address_of(ReaderSettings(), "", host, port, match["user"], password, server_id=0), ssl=ssl
    )


def _files_of(folder: Path) -> Sequence[BinlogFile]:
    files = listed(str(folder))
    gap = gap_in(files)
    if gap is not None:
        raise UsageError(
            f"{folder} lacks the files between {files[gap - 1].name} and {files[gap].name}.",
            hint="Put the missing files back, or name the files to print instead of their folder.",
        )
    return files


def _show(
    files: Sequence[BinlogFile], write: Write, note: Write, lookup: TableLookup, *, as_json: bool
) -> None:
    source = BinlogFiles(files, TableName, lookup=lookup, count_packed=not as_json, verbatim=True)
    lines: Lines = JsonLines() if as_json else TextLines()
    counted: Counter[str] = Counter()
    unended = ""
    try:
        for chunk in source:
            for header, changes in transactions(chunk):
                for line in lines.of(chunk, header, changes):
                    write(line)
                counted.update(f"{change.op} {change.name}" for change in changes)
                ends = Flag.END in Flag(int(header["flags"]))
                counted["transactions"] += ends
                unended = "" if ends else f"{chunk.names[int(header['file'])]}:{int(header['begin_offset'])}"
    finally:
        if not as_json:
            for line in _summary(source, counted):
                write(line)
        for sentence in _notes(source, unended):
            note(sentence)


def _notes(source: BinlogFiles, unended: str) -> Iterator[str]:
    yield from map(str, source.tails)
    if unended:
        yield f"The transaction at {unended} is printed in part: its end was not read."
    losses = source.losses
    for count, what in (
        (losses.zero_dates, "zero or impossible dates are printed as null."),
        (
            losses.invalid_text,
            "strings have bytes that are invalid in their charset: each is printed as \ufffd.",
        ),
        (
            losses.ignored_events.total(),
            "events of unknown types are ignored: their server marks them as ignorable.",
        ),
        (source.prepared, "XA transactions are left prepared: their rows are printed where they commit."),
    ):
        if count:
            yield f"{count} {what}"


def _summary(source: BinlogFiles, counted: Counter[str]) -> Iterator[str]:
    yield f"{counted.pop('transactions', 0)} transactions, {source.events.total()} events"
    for what, count in sorted(counted.items()):
        yield f"{count:>10} {what}"
    for kind, count in sorted(source.events.items()):
        yield f"{count:>10} {type_name(kind)}"
