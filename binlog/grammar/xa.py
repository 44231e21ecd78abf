"""XA: transactions in two phases. Their rows are logged at PREPARE and take effect at COMMIT, or never.

What the binlog holds; each part has a GTID of its own:

    MySQL    QUERY XA START, rows, QUERY XA END, XA_PREPARE          later  QUERY XA COMMIT | XA ROLLBACK
    MariaDB  GTID (prepared), rows, QUERY XA END, XA_PREPARE         later  QUERY XA COMMIT | XA ROLLBACK

XA_PREPARE has a flag for a commit in one phase; then it is the commit. Servers before MySQL 5.7 and MariaDB
10.5 log an XA transaction like any other, when it commits.

`XaTransactions` keeps the rows of prepared transactions until they commit or roll back: undecoded, in memory,
bounded. A reader that began after a PREPARE lacks its rows; docs/adr/0005-grammar.md#xa says
how it gets them.

Layout: `XA_prepare_event` in MySQL's control_events.h; statements as the servers serialise an xid,
X'gtrid',X'bqual',format.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import NamedTuple

from canal_group.binlog.columns.columns import TableSchema
from canal_group.binlog.schema.clauses.tokens import Kind, UnreadableError
from canal_group.binlog.schema.clauses.words import FirstWords
from canal_group.binlog.schema.statement import ServerVersion, Statement
from canal_group.merge.errors import CorruptEvent, PositionPurged, UnsupportedEvent

#: how many transactions may be prepared at once
XIDS_MAX = 4096
#: bytes of rows events that may be held for them
XA_BYTES_MAX = 256 << 20
#: bytes that a held rows event counts in addition to its own, so that many small events are bounded too
XA_EVENT_BYTES = 256

_PREPARE = struct.Struct("<?Iii")
_VERBS = ("START", "BEGIN", "END", "PREPARE", "COMMIT", "ROLLBACK")
#: server version for the parser of XA statements: all servers write these statements alike
_SERVER = ServerVersion(True, 10, 11)


class Xid(NamedTuple):
    """The identifier of an XA transaction."""

    gtrid: bytes
    bqual: bytes
    format: int

    def __str__(self) -> str:
        return f"X'{self.gtrid.hex()}',X'{self.bqual.hex()}',{self.format}"


class XaStatement(NamedTuple):
    """A statement about an XA transaction."""

    #: START END PREPARE COMMIT or ROLLBACK
    verb: str
    xid: Xid
    one_phase: bool


def parse_xa_statement(sql: str) -> XaStatement:
    """Return the content of a statement that begins with XA.

    Raises:
        UnsupportedEvent: no server writes such a statement.
    """
    words = FirstWords(Statement(sql, "", _SERVER))
    try:
        words.skip_to("XA")
        words.expect("XA")
        if not words.sees_any(*_VERBS):
            raise words.unexpected("a verb should come")
        verb = words.take().word
        gtrid, bqual = _bytes(words), _bytes(words)
        xid = Xid(gtrid, bqual, words.number())
        one_phase = words.sees("ONE", "PHASE")
    except UnreadableError as error:
        raise UnsupportedEvent(
            f"An XA statement is not understood, no server writes its xid like that: {error}."
        ) from error
    return XaStatement("START" if verb == "BEGIN" else verb, xid, one_phase)


def _bytes(words: FirstWords) -> bytes:
    """Take bytes in hexadecimal, and the comma after them."""
    if words.peek().kind is not Kind.BYTES:
        raise words.unexpected("bytes in hexadecimal should come")
    found = bytes.fromhex(words.take().text)
    words.expect(",")
    return found


class XaPrepare(NamedTuple):
    """XA_PREPARE: the end of an XA transaction's rows."""

    one_phase: bool
    xid: Xid


def parse_xa_prepare(body: bytes) -> XaPrepare:
    """Return an XA_PREPARE event's content.

    Raises:
        CorruptEvent: its lengths exceed the event.
    """
    one_phase, number, gtrid_size, bqual_size = _PREPARE.unpack_from(body)
    name = body[_PREPARE.size :]
    if gtrid_size < 0 or bqual_size < 0 or len(name) < gtrid_size + bqual_size:
        raise CorruptEvent("An xid's lengths exceed its event.")
    return XaPrepare(one_phase, Xid(name[:gtrid_size], name[gtrid_size : gtrid_size + bqual_size], number))


class RowsEvent(NamedTuple):
    """A rows event of a selected table, not decoded yet; see `ChunkBuilder.add_rows`."""

    table: TableSchema
    version: bytes
    event_type: int
    body: bytes
    post_header_size: int


@dataclass(slots=True)
class _XaRows:
    rows: list[RowsEvent] = field(default_factory=list)
    bytes: int = 0


class XaTransactions:
    """Holds the rows of XA transactions until they commit or roll back.

    At most one is being read at a time (from `begin` to `prepare` or `take`); the others are prepared.
    """

    def __init__(self, xids_max: int = XIDS_MAX, bytes_max: int = XA_BYTES_MAX) -> None:
        self._xids_max = xids_max
        self._bytes_max = bytes_max
        self._open: _XaRows | None = None
        self._prepared: dict[Xid, _XaRows] = {}
        self._bytes = 0

    @property
    def reading(self) -> bool:
        """Whether the rows being read belong to an XA transaction."""
        return self._open is not None

    @property
    def prepared(self) -> int:
        """How many transactions are prepared."""
        return len(self._prepared)

    @property
    def events(self) -> int:
        """How many rows events of the transaction being read were read."""
        return len(self._open.rows) if self._open else 0

    def begin(self) -> None:
        """Begin an XA transaction: the rows that follow belong to it."""
        self.drop()
        self._open = _XaRows()

    def hold(self, rows: RowsEvent) -> None:
        """Keep a rows event.

        Raises:
            UnsupportedEvent: the limit of bytes is reached; nothing was kept.
        """
        assert self._open is not None, "no XA transaction is being read"
        size = len(rows.body) + XA_EVENT_BYTES
        if self._bytes + size > self._bytes_max:
            raise UnsupportedEvent(
                f"Undecided XA transactions hold more than {self._bytes_max} bytes of rows.",
                hint="Commit or roll back what XA RECOVER lists on the source; make XA transactions smaller.",
            )
        self._open.rows.append(rows)
        self._open.bytes += size
        self._bytes += size

    def undo(self, since: int) -> None:
        """Forget the rows events of the transaction after its first `since` ones: they were rolled back."""
        assert self._open is not None, "no XA transaction is being read"
        events = self._open.rows[since:]
        del self._open.rows[since:]
        size = sum(len(rows.body) + XA_EVENT_BYTES for rows in events)
        self._open.bytes -= size
        self._bytes -= size

    def take(self) -> list[RowsEvent]:
        """Return the rows of the transaction being read, which commits in one phase."""
        xa_rows, self._open = self._open or _XaRows(), None
        self._bytes -= xa_rows.bytes
        return xa_rows.rows

    def drop(self) -> None:
        """Forget the transaction being read: it was rolled back, or its file ends inside it."""
        self.take()

    def prepare(self, xid: Xid) -> None:
        """Keep the transaction being read under its xid until it commits or rolls back.

        Raises:
            UnsupportedEvent: the limit of prepared transactions is reached; nothing was changed.
        """
        # An xid that is prepared again was decided before, in a session that did not write the binlog.
        self.decide(xid)
        if len(self._prepared) >= self._xids_max:
            raise UnsupportedEvent(
                f"More than {self._xids_max} XA transactions are prepared.",
                hint="Commit or roll back what XA RECOVER lists on the source.",
            )
        self._prepared[xid], self._open = self._open or _XaRows(), None

    def decide(self, xid: Xid) -> list[RowsEvent] | None:
        """Return the rows of a prepared transaction and forget it; None if its PREPARE was not read."""
        xa_rows = self._prepared.pop(xid, None)
        if xa_rows is None:
            return None
        self._bytes -= xa_rows.bytes
        return xa_rows.rows

    def commit(self, statement: XaStatement) -> list[RowsEvent]:
        """Return the rows that an XA COMMIT commits, and forget them.

        Raises:
            PositionPurged: its PREPARE was not read; the details hold the `xid`.
        """
        if statement.one_phase and self.reading:
            return self.take()
        rows = self.decide(statement.xid)
        if rows is None:
            raise PositionPurged(
                f"XA transaction {statement.xid} commits here, but its rows were logged before the oldest "
                "binlog that is read.",
                hint="Read from a file that holds its XA PREPARE; if there is none, load its tables again.",
                xid=str(statement.xid),
            )
        return rows
