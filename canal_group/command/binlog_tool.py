"""What `canal-group binlog` prints: the transactions, rows and events that binlog files hold.

Two formats. For people: a line for each transaction, below it a line for each row change, and at the end what
was counted. With --json one object a line for each row change and each statement:

    {"file", "pos", "gtid", "schema", "table", "op", "before": {...}, "after": {...}}

`op` is INSERT, UPDATE or DELETE, `before` and `after` map columns to canal's text values (`merge.rows.text`),
and an image that there is not is null. A column that an image does not say is not in it, see
`merge.rows.absent`. `pos` is where the transaction begins, as in every other output of this project. A
definition has canal's name of its kind as `op` (CREATE, ALTER, ...), no images, and `sql` beside.

Any other statement is there because its rows are in no event, and has STATEMENT as `op`: one that changed
rows (`binlog_format` STATEMENT or MIXED); a ROLLBACK or a ROLLBACK TO over rows that are in the file, of
which tables without transactions keep theirs; an XA COMMIT whose rows are in an earlier file. Rows of an XA
transaction are printed where it commits.

On stderr, one sentence each: what a file that is in use ends in, see `file_tail`; zero or impossible dates,
which are null here, as everywhere in this project; strings with bytes that their charset does not have;
events that were ignored; XA transactions that are left prepared; a transaction that is printed in part.

Columns that a file does not name are called @1, @2 and so on, unless a server is asked for them; of events
inside a transaction payload both are counted, the payload and they.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from actors.parse.columns.table_lookup import NoLookup, TableLookup
from actors.parse.files.binlog_files import BinlogFiles, files_in, gap_in
from actors.parse.formats.event_types import type_name
from actors.parse.server.server_lookup import ServerLookup
from actors.parse.server.source import SourceAddress, connect
from canal_group.command.binlog_changes import transactions
from canal_group.command.binlog_lines import JsonLines, Lines, TextLines
from merge.errors import UsageError
from merge.values.chunk import TableName
from merge.values.header import Flag

_SERVER = re.compile(r"(?P<user>[^@]+)@(?P<host>\[[^]]+\]|[^:@\[\]]+)(:(?P<port>\d{1,5}))?")

Write = Callable[[str], object]


def show(
    paths: list[Path], write: Write, *, note: Write, as_json: bool, lookup: SourceAddress | None = None
) -> None:
    """Print what files hold, in order.

    Args:
        paths: binlog or relay-log files; a folder stands for the binlogs in it.
        write: takes one line.
        note: takes one sentence on what was not printed, or not as it is.
        as_json: whether to print JSON objects.
        lookup: the server that is asked for what the files do not say of tables; None: nobody is.

    Raises:
        SourceUnavailable, SourceUnfit: that server does not answer; nothing was printed.
        UsageError: a number is missing among a folder's files; nothing was printed.
        CorruptEvent, UnsupportedEvent, UsageError: see `BinlogFiles`; everything before was printed.
    """
    files = [file for path in paths for file in (_files_of(path) if path.is_dir() else [path])]
    if lookup is None:
        _show(files, write, note, NoLookup(), as_json=as_json)
        return
    with contextlib.closing(connect(lookup)) as connection:
        _show(files, write, note, ServerLookup(lookup, connection), as_json=as_json)


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
        raise UsageError(f"{text!r} does not name a server.", hint="Expected user@host:port.")
    host = match["host"].strip("[]")
    port = int(match["port"] or 3306)
    ssl = None if ca is None else {"ca": str(ca), "verify_cert": True, "verify_identity": True}
    return SourceAddress("", host, port, match["user"], password, server_id=0, ssl=ssl)


def _files_of(folder: Path) -> list[Path]:
    files = files_in(folder)
    gap = gap_in(files)
    if gap is not None:
        raise UsageError(
            f"{folder} lacks the files between {files[gap - 1].name} and {files[gap].name}.",
            hint="Put the missing files back, or name the files to print instead of their folder.",
        )
    return files


def _show(files: list[Path], write: Write, note: Write, lookup: TableLookup, *, as_json: bool) -> None:
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
        (losses.ignored_events, "events of unknown types are ignored: their server marks them as ignorable."),
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
