"""What `canal-group binlog` prints: the transactions, rows and events that binlog files hold.

Two formats. For people: a line for each transaction, below it a line for each row change, and at the end what
was counted. With --json one object a line for each row change and each definition statement:

    {"file", "pos", "gtid", "schema", "table", "op", "before": {...}, "after": {...}}

`op` is INSERT, UPDATE or DELETE, `before` and `after` map columns to canal's text values (`merge.rows.text`),
and an image that there is not is null. A column that an image does not say is not in it, see
`merge.rows.absent`. `pos` is where the transaction begins, as in every other output of this project. A
definition has canal's name of its kind as `op` (CREATE, ALTER, ...), no images, and `sql` beside.

A statement that changed rows which are in no event (`binlog_format` STATEMENT or MIXED) is printed the same
way, with INSERT, UPDATE, DELETE or QUERY as `op`, and counted apart. So is a ROLLBACK or a ROLLBACK TO over
rows that stand in the file: tables without transactions keep theirs, and which are such it does not say. Rows
of an XA transaction are printed where it commits. An XA COMMIT without them, which stand in an earlier file,
is a QUERY; how many stand prepared at the end, to be committed in a later one, is said for people.

A date with a zero or an impossible part is null, as everywhere in this project; people are told how many.

Columns that a file does not name are called @1, @2 and so on, unless a server is asked for them; of events
inside a transaction payload both are counted, the payload and they. Strings whose charset it does not say are
printed as UTF-8 where they are, else each byte as the ISO-8859-1 character of its number.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.parse.columns.table_lookup import NoLookup, TableLookup
from actors.parse.files.binlog_files import BinlogFiles, files_in
from actors.parse.formats.event_types import type_name
from actors.parse.server.server_lookup import ServerLookup
from actors.parse.server.source import SourceAddress, connect
from merge.errors import UsageError
from merge.rows.absent import absent_in
from merge.rows.text import text
from merge.values.chunk import MYSQL_TYPE, Chunk, Op, TableName
from merge.values.header import gtid_text

_SERVER = re.compile(r"(?P<user>[^@]+)@(?P<host>\[[^]]+\]|[^:@\[\]]+)(:(?P<port>\d{1,5}))?")

Write = Callable[[str], object]
#: column name -> value as text
Image = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Change:
    """A row change or a statement, as printed."""

    op: str
    name: TableName
    before: Image | None = None
    after: Image | None = None
    sql: str | None = None


def show(paths: list[Path], write: Write, *, as_json: bool, lookup: SourceAddress | None = None) -> None:
    """Print what files hold, in order.

    Args:
        paths: binlog or relay-log files; a folder stands for the binlogs in it.
        write: takes one line.
        as_json: whether to print JSON objects.
        lookup: the server that is asked for what the files do not say of tables; None: nobody is.

    Raises:
        SourceUnavailable, SourceUnfit: that server does not answer; nothing was printed.
        CorruptEvent, UnsupportedEvent, UsageError: see `BinlogFiles`; everything before was printed.
    """
    files = [file for path in paths for file in (files_in(path) if path.is_dir() else [path])]
    if lookup is None:
        _show(files, write, NoLookup(), as_json=as_json)
        return
    with contextlib.closing(connect(lookup)) as connection:
        _show(files, write, ServerLookup(lookup, connection), as_json=as_json)


def server_at(text: str, password: str, ca: Path | None = None) -> SourceAddress:
    """Return the server that `user@host:port` names; the port may be missing (3306), the host in brackets.

    Args:
        text: names it.
        password: of the user.
        ca: authorities that sign its certificate, by which it then has to prove that it is the host; None: no
            TLS.

    Raises:
        UsageError: the text names none.
    """
    match = _SERVER.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} names no server.", hint="Expected user@host:port.")
    host = match["host"].strip("[]")
    port = int(match["port"] or 3306)
    ssl = None if ca is None else {"ca": str(ca), "verify_cert": True, "verify_identity": True}
    return SourceAddress("", host, port, match["user"], password, server_id=0, ssl=ssl)


def _show(files: list[Path], write: Write, lookup: TableLookup, *, as_json: bool) -> None:
    source = BinlogFiles(files, TableName, lookup=lookup, count_packed=not as_json, verbatim=True)
    counted: Counter[str] = Counter()
    try:
        for chunk in source:
            for header, changes in _transactions(chunk):
                for line in (_json_lines if as_json else _lines)(chunk, header, changes):
                    write(line)
                counted.update(_kind(change) for change in changes)
                counted["transactions"] += int(header["flags"]) & 2 != 0
    finally:
        if not as_json:
            for line in _summary(source, counted):
                write(line)


def _kind(change: Change) -> str:
    as_text = change.sql is not None and change.op in Op.__members__
    return f"{change.op} {change.name}{' (statement without rows)' if as_text else ''}"


def _transactions(chunk: Chunk) -> Iterator[tuple[Any, list[Change]]]:
    """Yield each header with its changes in their order."""
    found: dict[int, list[tuple[int, Change]]] = {}
    for table in chunk.tables:
        for header, row, change in _row_changes(table.name, table.rows):
            found.setdefault(header, []).append((row, change))
    for each in chunk.statements.to_pylist() if chunk.statements is not None else ():
        change = Change(each["op"], TableName(each["schema"], each["table"]), sql=each["sql"])
        found.setdefault(each["_header"], []).append((each["_row"], change))
    for index, header in enumerate(chunk.headers):
        yield header, [change for _, change in sorted(found.get(index, ()), key=lambda each: each[0])]


def _row_changes(name: TableName, rows: Any) -> Iterator[tuple[int, int, Change]]:
    before, after = (_images(rows, image) for image in ("before", "after"))
    places = zip(*(rows.column(column).to_pylist() for column in ("_header", "_row", "_op")), strict=True)
    for (header, row, op), old, new in zip(places, before, after, strict=True):
        yield header, row, Change(Op(op).name, name, old, new)


def _images(changes: Any, image: str) -> list[Image | None]:
    images, absent = changes.column(image), absent_in(changes, image)
    columns = [_texts(pc.struct_field(images, [place]), column) for place, column in enumerate(images.type)]
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
    texts: list[str | None] = text(values, (column.metadata or {}).get(MYSQL_TYPE, b"").decode()).to_pylist()
    return texts


def _guessed(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _gtid(chunk: Chunk, header: Any) -> str:
    return gtid_text(chunk.names[int(header["gtid_source"])], int(header["gtid_number"]))


def _json_lines(chunk: Chunk, header: Any, changes: list[Change]) -> Iterator[str]:
    place = {
        "file": chunk.names[int(header["file"])],
        "pos": int(header["begin_offset"]),
        "gtid": _gtid(chunk, header),
    }
    for change in changes:
        shown: dict[str, Any] = {
            **place,
            "schema": change.name.schema,
            "table": change.name.table,
            "op": change.op,
            "before": change.before,
            "after": change.after,
        }
        if change.sql is not None:
            shown["sql"] = change.sql
        yield json.dumps(shown, ensure_ascii=False)


def _lines(chunk: Chunk, header: Any, changes: list[Change]) -> Iterator[str]:
    commit = datetime.fromtimestamp(int(header["commit_us"]) / 1_000_000, UTC)
    file, begin = chunk.names[int(header["file"])], int(header["begin_offset"])
    gtid, count = _gtid(chunk, header), int(header["rows"])
    yield f"{file}:{begin}  {commit:%Y-%m-%d %H:%M:%S.%f}  {gtid or 'no gtid'}  {count} changes"
    for change in changes:
        images = [_image(image) for image in (change.before, change.after) if image is not None]
        yield f"    {change.op} {change.name}  {change.sql or ' -> '.join(images)}"


def _image(image: Image) -> str:
    return json.dumps(image, ensure_ascii=False)


def _summary(source: BinlogFiles, counted: Counter[str]) -> Iterator[str]:
    yield f"{counted.pop('transactions', 0)} transactions, {source.events.total()} events"
    losses = source.losses
    for count, what in (
        (losses.zero_dates, "zero or impossible dates are printed as null"),
        (losses.invalid_text, "strings have bytes that their charset does not have"),
        (losses.ignored_events, "events of unknown types are passed over, as their server says they may be"),
        (source.prepared, "XA transactions stand prepared: their rows come when they commit"),
    ):
        if count:
            yield f"{count} {what}"
    for what, count in sorted(counted.items()):
        yield f"{count:>10} {what}"
    for kind, count in sorted(source.events.items()):
        yield f"{count:>10} {type_name(kind)}"
