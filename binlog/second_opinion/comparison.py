"""Comparison: every row and value of binlog files, as our decoder and as mysql-replication reads them.

Both read the same bytes in one pass, transaction by transaction: memory holds one chunk of ours and one event
of mysql-replication's. The comparison ends at the first difference.

Values: whether ours and mysql-replication's are the same, or of a class that it reads differently.

mysql-replication gives SET columns as sets, BIT as digits, TIMESTAMP without a time zone, JSON as Python
objects, and strings of charsets that it does not decode as bytes. These are compared by their meaning.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Final

from canal_group.binlog.columns.table_lookup import TableLookup
from canal_group.binlog.files.binlog_files import BinlogFiles
from canal_group.binlog.formats.binlog_file import BinlogFile
from canal_group.binlog.grammar.chunk_builder import SEARCH_LIMITS
from canal_group.binlog.grammar.tables import Select
from canal_group.binlog.second_opinion.witness import EventPosition, Image, Row, Unread, Witness
from canal_group.merge.values.chunk import Chunk, Op, StatementKind, TableName, mysql_type_of
from canal_group.merge.values.header import Flag
from canal_group.merge.values.rows.absent import absent_in
from canal_group.merge.values.types.table import TABLE

#: the answer for different values; other answers name the class of values that is not compared
DIFFERENT: Final = "different"
EQUAL: Final = ""
CHARSETS: Final = "text of charsets other than UTF-8 and ASCII"

_ADDRESSES: Final = frozenset(row.name for row in TABLE if row.code is row.hidden_in)
_SIGNS: Final = frozenset(1 << bits for bits in (8, 16, 24, 32, 64))
_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - as mysql-replication has it


def compared(ours: Any, theirs: Any, mysql_type: str, *, named: bool) -> str:
    """Return EQUAL, DIFFERENT, or the class of values that mysql-replication reads otherwise.

    Args:
        ours: as Arrow gives it to Python.
        theirs: as mysql-replication gives it.
        mysql_type: the column's type as the source writes it, such as `datetime(3)`.
        named: whether the table map has full metadata.
    """
    kind = mysql_type.split("(", maxsplit=1)[0].split(" ", maxsplit=1)[0]
    if ours is None or theirs is None:
        return _null(ours, theirs, kind, named=named)
    if _same(ours, theirs, kind):
        return EQUAL
    return _class_of(ours, theirs, kind, named=named)


def _null(ours: Any, theirs: Any, kind: str, *, named: bool) -> str:
    if ours is theirs:
        return EQUAL
    if theirs is None and kind == "set" and ours == "":
        return EQUAL
    if theirs is None and isinstance(ours, int | str) and not named:
        return "ENUM and SET without full metadata"
    if ours is None and kind == "timestamp" and theirs == _EPOCH:
        return "the zero TIMESTAMP"
    if kind == "json" and theirs is None and json.loads(ours) is None:
        return EQUAL
    return DIFFERENT


def _same(ours: Any, theirs: Any, kind: str) -> bool:  # noqa: PLR0911 - one branch a type
    if kind == "json":
        return bool(json.loads(ours) == _plain(theirs))
    if kind == "bit" and isinstance(theirs, str):
        return bool(ours == int(theirs, 2))
    if isinstance(theirs, set):
        return set(ours.split(",")) == theirs
    if isinstance(theirs, dt.datetime) and getattr(ours, "tzinfo", None) is not None:
        return bool(ours == theirs.replace(tzinfo=dt.UTC))
    if isinstance(theirs, str) and isinstance(ours, bytes):
        theirs = theirs.encode()
    if isinstance(theirs, bytes):
        if isinstance(ours, str):
            return ours.encode() == theirs
        # The binlog lacks the trailing zeros of BINARY(n).
        return bool(ours == (theirs.ljust(len(ours), b"\0") if kind == "binary" else theirs))
    return bool(ours == theirs)


def _class_of(ours: Any, theirs: Any, kind: str, *, named: bool) -> str:  # noqa: PLR0911 - one branch a class
    if kind in _ADDRESSES:
        return "UUID, INET4 and INET6"
    if kind == "year" and (ours, theirs) == (0, 1900):
        return "YEAR 0000"
    if kind == "time" and ours < dt.timedelta(0) and (ours.microseconds or theirs > dt.timedelta(0)):
        return "negative TIME with a fraction or in the old format"
    if kind == "json" and _opaque(theirs):
        return "JSON with opaque values"
    if isinstance(ours, str) and isinstance(theirs, bytes):
        return CHARSETS
    if not named and isinstance(ours, int) and isinstance(theirs, int) and abs(ours - theirs) in _SIGNS:
        return "unsigned numbers without full metadata"
    return DIFFERENT


def _plain(value: Any) -> Any:
    """Return mysql-replication's JSON document, in which keys and strings are bytes, as `json` reads one."""
    if isinstance(value, dict):
        return {_plain(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _opaque(value: Any) -> bool:
    """Return whether a document holds values that are not JSON: dates, decimals or bytes."""
    if isinstance(value, dict):
        return any(map(_opaque, value.values()))
    if isinstance(value, list):
        return any(map(_opaque, value))
    if isinstance(value, bytes):
        try:
            value.decode()
        except UnicodeDecodeError:
            return True
        return False
    return not isinstance(value, bool | int | float | str | None)


#: bytes and rows of one chunk of ours
_LIMITS: Final = replace(SEARCH_LIMITS, bytes_max=1 << 20, rows_max=4096)
_ABSENT: Final = "columns that images lack (binlog_row_image)"
_STATEMENTS: Final = "statements, whose rows are in no event"


@dataclass(frozen=True, slots=True)
class Difference:
    """The first row or value that the two decoders do not agree on."""

    #: the begin of the event, or of the transaction if mysql-replication has no such row
    position: EventPosition
    #: empty where not a single value differs
    table: str
    column: str
    #: what each decoder has
    ours: str
    theirs: str


@dataclass(slots=True)
class Opinion:
    """The result of a comparison."""

    transactions: int = 0
    rows: int = 0
    values: int = 0
    #: class -> rows that were not compared
    rows_left: Counter[str] = field(default_factory=Counter)
    #: class -> values that were not compared
    values_left: Counter[str] = field(default_factory=Counter)
    difference: Difference | None = None


@dataclass(frozen=True, slots=True)
class _Ours:
    name: TableName
    op: Op
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    #: column -> its type
    types: dict[str, str]
    #: columns that the images lack
    absent: dict[str, frozenset[str]]


class _Differs(Exception):  # noqa: N818 - ends the comparison; not an error
    def __init__(self, difference: Difference) -> None:
        super().__init__()
        self.difference = difference


def second_opinion(
    files: Sequence[BinlogFile],
    select: Select,
    *,
    lookup: TableLookup,
    witnessed: Sequence[BinlogFile] | None = None,
) -> Opinion:
    """Compare what both decoders read in files.

    Args:
        files: in the order in which they were written.
        select: which tables are compared, under which name.
        lookup: describes tables where table maps are incomplete, see `unnamed_tables`.
        witnessed: the files that mysql-replication reads; default: the same.

    Raises:
        CorruptEvent, UnsupportedEvent, PositionPurged: our decoder refuses the files.
    """
    comparison = _Comparison([path.name for path in files], iter(Witness(witnessed or files, select)))
    try:
        for chunk in BinlogFiles(files, select, _LIMITS, lookup=lookup, verbatim=True):
            comparison.add(chunk)
        comparison.end()
    except _Differs as differs:
        comparison.opinion.difference = differs.difference
    return comparison.opinion


class _Comparison:
    def __init__(self, files: Sequence[str], witness: Iterator[Row | Unread]) -> None:
        self.opinion = Opinion()
        self._order = {name: index for index, name in enumerate(files)}
        self._witness = witness
        self._next = next(witness, None)
        #: why the rest of the open transaction is not compared; empty: it is
        self._unread = ""

    def add(self, chunk: Chunk) -> None:
        rows = _rows(chunk)
        for source in chunk.statement_sources:
            if source.kind is StatementKind.ROWS:
                self.opinion.rows_left[_STATEMENTS] += 1
        for index, header in enumerate(chunk.headers):
            begin = EventPosition(chunk.names[int(header["file"])], int(header["begin_offset"]))
            end = int(header["end_offset"])
            if int(header["flags"]) & Flag.BEGIN:
                self._pass_until(begin)
            for row in rows.get(index, ()):
                self._compare(begin, end, row)
            if int(header["flags"]) & Flag.END:
                self.opinion.transactions += 1
                self._end_transaction(EventPosition(begin.file, end))

    def end(self) -> None:
        """Return if mysql-replication has no more rows either."""
        self._pass_until(None)

    def _pass_until(self, position: EventPosition | None) -> None:
        """Pass the events before a transaction of ours, which have no rows of ours."""
        while self._next is not None and (
            position is None or self._key(self._next.position) < self._key(position)
        ):
            if isinstance(self._next, Row):
                raise _Differs(_extra(self._next))
            self._advance()

    def _end_transaction(self, end: EventPosition) -> None:
        while self._next is not None and self._key(self._next.position) < self._key(end):
            if isinstance(self._next, Row) and not self._unread:
                raise _Differs(_extra(self._next))
            self._advance()
        self._unread = ""

    def _key(self, position: EventPosition) -> tuple[int, int]:
        return self._order[position.file], position.offset

    def _advance(self) -> None:
        self._next = next(self._witness, None)

    def _compare(self, begin: EventPosition, end: int, ours: _Ours) -> None:
        theirs = self._next
        opinion = self.opinion
        if isinstance(theirs, Unread) and (
            end <= begin.offset or self._key(theirs.position) < self._key(EventPosition(begin.file, end))
        ):
            self._unread = theirs.why
        if self._unread:
            opinion.rows_left[self._unread] += 1
            return
        past = theirs is None or (
            end > begin.offset and self._key(theirs.position) >= self._key(EventPosition(begin.file, end))
        )
        if past or not isinstance(theirs, Row):
            raise _Differs(Difference(begin, str(ours.name), "", _row_text(ours.op), "no row"))
        if (theirs.name, theirs.op) != (ours.name, ours.op):
            their_row = f"{_row_text(theirs.op)} of {theirs.name}"
            raise _Differs(Difference(theirs.position, str(ours.name), "", _row_text(ours.op), their_row))
        self._images(theirs, ours, "before", ours.before, theirs.before)
        self._images(theirs, ours, "after", ours.after, theirs.after)
        opinion.rows += 1
        self._advance()

    def _images(
        self, row: Row, mine: _Ours, which: str, ours: dict[str, Any] | None, theirs: Image | None
    ) -> None:
        if ours is None or theirs is None:
            assert ours is None, "the same operation has the same images"
            assert theirs is None, "the same operation has the same images"
            return
        names = list(theirs.values) if row.named else list(ours)
        if len(theirs.values) != len(ours) or set(names) != set(ours):
            raise _Differs(
                Difference(
                    row.position, str(row.name), "", f"columns {list(ours)}", f"columns {list(theirs.values)}"
                )
            )
        for name, (their_name, value) in zip(names, theirs.values.items(), strict=True):
            if their_name in theirs.absent or name in mine.absent[which]:
                self.opinion.values_left[_ABSENT] += 1
                continue
            answer = compared(ours[name], value, mine.types[name], named=row.named)
            if answer == DIFFERENT and their_name in row.undecoded:
                answer = CHARSETS
            if answer == DIFFERENT:
                raise _Differs(
                    Difference(
                        row.position, str(row.name), f"{name} ({which})", repr(ours[name]), repr(value)
                    )
                )
            if answer != EQUAL:
                self.opinion.values_left[answer] += 1
            else:
                self.opinion.values += 1


def _row_text(op: Op) -> str:
    return f"a row of {op.name}"


def _extra(row: Row) -> Difference:
    return Difference(row.position, str(row.name), "", "no row", _row_text(row.op))


def _rows(chunk: Chunk) -> dict[int, list[_Ours]]:
    changes = [each for table in chunk.tables for each in _rows_of(table.name, table.rows)]
    changes.sort(key=lambda each: each[0])
    return {
        header: [row for _, row in several]
        for header, several in groupby(changes, key=lambda each: each[0][0])
    }


def _rows_of(name: TableName, rows: Any) -> Iterator[tuple[tuple[int, int], _Ours]]:
    fields = list(rows.schema.field("after").type)
    types = {each.name: mysql_type_of(each) for each in fields}
    lacks = {image: absent_in(rows, image) for image in ("before", "after")}
    for index, row in enumerate(rows.to_pylist()):
        absent = {
            image: frozenset(
                each.name for each, no in zip(fields, () if gone is None else gone[index], strict=False) if no
            )
            for image, gone in lacks.items()
        }
        ours = _Ours(name, Op(row["_op"]), row["before"], row["after"], types, absent)
        yield (row["_header"], row["_row"]), ours
