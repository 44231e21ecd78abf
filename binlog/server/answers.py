"""Answers: how much a server may send for one command, and for how long; and the rows of them.

A server may be anything that listens at an address. Without these bounds it could send one packet without an
end, rows without an end, or a byte a second for ever. All that PyMySQL reads is counted here: the login, rows
and errors. `canal_group.binlog.server.packets` reads dumps and the rows of pages, with bounds of its own.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pymysql
from pymysql.constants import COMMAND, CR
from pymysql.protocol import FieldDescriptorPacket, MysqlPacket

from canal_group.merge.errors import CanalGroupError

if TYPE_CHECKING:
    _Driver = pymysql.Connection[Any]
else:
    _Driver = pymysql.Connection

#: characters of a statement that an error quotes
_QUOTED_CHARS: Final = 80


@dataclass(frozen=True, slots=True)
class AnswerBounds:
    """How much a server may answer to one command."""

    #: of all packets together
    bytes_max: int
    #: packets that describe no column: rows, errors, what ends a part
    rows_max: int
    #: of the widest table that a server has
    columns_max: int = 4_096
    #: from the command to the last byte; a silence ends earlier, see `SourceAddress.read_timeout_s`
    seconds_max: float = 60.0


#: from the greeting to the first command
LOGIN: Final = AnswerBounds(bytes_max=1 << 20, rows_max=64)
#: statements about the server, its logs and one table
ANSWER: Final = AnswerBounds(bytes_max=32 << 20, rows_max=200_000)
#: statements that list all tables of a server
LISTING: Final = AnswerBounds(bytes_max=512 << 20, rows_max=2_000_000)


class AnswerUnbounded(Exception):  # noqa: N818  it is refused by us
    """An answer goes on after one of its bounds.

    Args:
        what: the answer and the bound, as the rest of a sentence that begins with the server's name.
    """


class BoundedConnection(_Driver):
    """A connection that ends when an answer exceeds its bounds.

    Args:
        options: of PyMySQL's connection.

    Raises:
        AnswerUnbounded: the login exceeds them.
        pymysql.Error: as PyMySQL.
    """

    def __init__(self, **options: Any) -> None:
        self._bounds = ANSWER
        self._begin(LOGIN, "the login")
        super().__init__(**options)

    @contextlib.contextmanager
    def bounded(self, bounds: AnswerBounds) -> Iterator[None]:
        """Let the commands within have other bounds than `ANSWER`."""
        self._bounds = bounds
        try:
            yield
        finally:
            self._bounds = ANSWER

    def _begin(self, bounds: AnswerBounds, command: str) -> None:
        self._current, self._command = bounds, command
        self._bytes = self._rows = self._columns = 0
        self._ends_s = time.monotonic() + bounds.seconds_max

    def _execute_command(self, command: int, sql: str | bytes) -> None:
        text = sql if isinstance(sql, str) else sql.decode("utf-8", "replace")
        # What follows WHERE may be values of rows, which no error quotes.
        shown = text.partition(" WHERE ")[0][:_QUOTED_CHARS]
        text = repr(shown if shown == text else f"{shown}...")
        if command != COMMAND.COM_QUERY:
            text = f"command {command}"
        # Answers to a command before, which were not read, count for this one.
        self._begin(self._bounds, text)
        driver_does: Any = super()
        driver_does._execute_command(command, sql)  # noqa: SLF001 - the driver has no public way

    def _read_packet(self, packet_type: type[MysqlPacket] = MysqlPacket) -> MysqlPacket:
        bounds = self._current
        if packet_type is FieldDescriptorPacket:
            self._columns += 1
            self._require(self._columns, bounds.columns_max, "columns")
        else:
            self._rows += 1
            self._require(self._rows, bounds.rows_max, "rows")
        driver_does: Any = super()
        packet: MysqlPacket = driver_does._read_packet(packet_type)  # noqa: SLF001
        return packet

    def _read_bytes(self, num_bytes: int) -> bytes:
        """Read bytes; each wait for some of them is as long as the driver's `read_timeout` at most."""
        self._bytes += num_bytes
        self._require(self._bytes, self._current.bytes_max, "bytes")
        driver: Any = self
        parts: list[bytes] = []
        while num_bytes:
            self._require(time.monotonic(), self._ends_s, "seconds", self._current.seconds_max)
            try:
                part, why = driver._rfile.read1(num_bytes), "it ended"  # noqa: SLF001
            except OSError as error:
                part, why = b"", str(error)
            if not part:
                driver._force_close()  # noqa: SLF001
                raise pymysql.err.OperationalError(CR.CR_SERVER_LOST, f"Lost connection during query ({why})")
            num_bytes -= len(part)
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _require(self, count: float, most: float, unit: str, shown: float | None = None) -> None:
        if count > most:
            driver: Any = self
            driver._force_close()  # noqa: SLF001
            limit = most if shown is None else shown
            raise AnswerUnbounded(f"answers {self._command} with more than {limit} {unit}")


class Row(dict[str, Any]):
    """The values of one row, by column name; a column that is missing raises an error of ours.

    Args:
        values: the row as the driver returned it.
        unfit: makes the error; its argument says what is wrong, as the end of a sentence.
    """

    def __init__(self, values: Mapping[str, Any], unfit: Callable[[str], CanalGroupError]) -> None:
        super().__init__(values)
        self._unfit = unfit

    def __missing__(self, column: str) -> Any:
        raise self._unfit(f"its answer has no column {column}")

    def number(self, column: str) -> int:
        """Return a value as a whole number.

        Raises:
            CanalGroupError: it is not a whole number.
        """
        value = self[column]
        try:
            return int(value)
        except (TypeError, ValueError):
            raise self._unfit(f"its answer has a value in column {column} that is not a number") from None
