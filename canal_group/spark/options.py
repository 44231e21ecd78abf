"""The data source's options: how a query reads the stream."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from canal_group.client.consumer import Consumer
from canal_group.gateway.gateway_client import GatewayClient
from canal_group.gateway.tls import Tls
from canal_group.merge.errors import ConfigError
from canal_group.merge.values.position import GroupPosition
from canal_group.merge.values.start import time_of
from canal_group.merge.whole import WHOLE, shown

#: the longest duration of an option: a year
SECONDS_MAX: Final = 366 * 86_400

#: shapes that rows come in
FORMATS = ("typed", "envelope", "debezium", "canal")
#: how to treat a new column: end the query between two micro-batches, to be started again with it
EVOLVE: Final = "evolve"
#: how to treat a column that the query's schema does not have
NEW_COLUMNS = ("fail", "ignore", EVOLVE)
#: types for unsigned 64-bit integers; "bigint" fails at a number that does not fit
UNSIGNED_BIGINT = ("decimal", "bigint", "string")
#: whether a client id without a cursor gets the rows that there are
SNAPSHOT = ("never", "initial")
#: words for a position: the client's cursor, and where the sources' binlogs begin and end
CURSOR: Final = "cursor"
EARLIEST: Final = "earliest"
LATEST: Final = "latest"


@dataclass(frozen=True)
class Options:
    """A query's options, made by `from_spark`. Sent to executors; the repr does not show the token."""

    #: "grpc://host:port", several separated by commas
    gateway: str
    destination: str
    #: the client id, whose cursor keeps rows in the rings
    client: str
    format: str
    #: "schema.table" of the typed format
    table: str = ""
    #: canal's filter on `schema.table`, for the other formats
    filter: str = ""
    #: the columns of the typed format to read and send, the table's and those added; (): all
    columns: tuple[str, ...] = ()
    token: str | None = field(default=None, repr=False)
    #: files of the trusted authorities, our certificate and its key; needed on every executor too
    tls_ca: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    #: whether executors on a gateway's machine may read rows by shared memory
    shared_memory: bool = True
    #: number of contiguous runs of the merged order in a micro-batch; 1 keeps the order in one task
    partitions: int = 1
    max_rows_per_batch: int = 500_000
    max_bytes_per_batch: int = 256 << 20
    #: a micro-batch waits for this many rows, for at most `max_delay_s`
    min_rows_per_batch: int = 1
    max_delay_s: float = 60.0
    #: seconds without a row after which a micro-batch may have none, so that the query's offset moves
    quiet_s: float = 10.0
    #: start of a bounded read, or of a query without a checkpoint: `cursor`, `earliest`, `latest`, a time, or
    #: a group position's JSON; empty: `cursor` for a query, `earliest` for a bounded read
    starting_position: str = ""
    #: whether a client id without a cursor gets the rows that there are; empty: as the instance file says
    snapshot: str = ""
    #: end of a bounded read: `latest`, a time, or a group position's JSON
    ending_position: str = LATEST
    #: whether the typed format has a row for the before image of an update
    preimages: bool = True
    new_columns: str = "fail"
    #: type of BIGINT UNSIGNED and BIT
    unsigned_bigint: str = "decimal"
    #: how long a gateway or a shard may be unavailable before the query fails, seconds
    retry_s: float = 120.0
    #: how long to wait until another consumer releases the client id, seconds
    wait_s: float = 30.0

    @classmethod
    def from_spark(cls, spark_options: Mapping[str, str]) -> Options:
        """Return the options of a query.

        Raises:
            ConfigError: an option is missing, unknown or invalid.
        """
        texts = {name.lower(): str(value) for name, value in spark_options.items()}
        values: dict[str, Any] = {}
        for name, (option, read) in _READ.items():
            text = texts.pop(option.lower(), None)
            if text is not None:
                values[name] = read(option, text)
        if texts:
            raise ConfigError(
                f"canal_group has no option {', '.join(sorted(texts))}.",
                hint=f"It has {', '.join(option for option, _ in _READ.values())}.",
            )
        values.setdefault("format", "typed" if "table" in values else "envelope")
        missing = [name for name in ("gateway", "destination", "client") if not values.get(name)]
        if missing:
            raise ConfigError(
                f"canal_group needs the option {' and '.join(missing)}.",
                hint='Such as .option("gateway", "grpc://host:11113").',
            )
        options = cls(**values)
        options.check()
        return options

    def check(self) -> None:
        """Check that the options fit together.

        Raises:
            ConfigError: they do not.
        """
        if (self.format == "typed") != bool(self.table):
            raise ConfigError(
                "The typed format needs the option table."
                if not self.table
                else f"The {self.format} format does not take the option table: it has all tables.",
                hint="Set the option table (schema.table, as consumers see it), or another format."
                if not self.table
                else "Set the option filter instead of table.",
            )
        if self.table and (not all(self.table.partition(".")) or self.filter):
            raise ConfigError(
                f"{self.table!r} is not a table name."
                if not self.filter
                else "The options table and filter exclude each other.",
                hint="Expected schema.table, as consumers see it, and no option filter.",
            )
        if self.columns and not self.table:
            raise ConfigError(
                f"The {self.format} format does not take the option columns: it has all columns.",
                hint="Set the option columns only together with table.",
            )
        if self.new_columns == EVOLVE and (self.columns or not self.table):
            raise ConfigError(
                "newColumns cannot be evolve together with columns, which chooses the columns."
                if self.columns
                else f"newColumns cannot be evolve for the {self.format} format, whose columns are always the"
                " same.",
                hint="Set only one of columns and newColumns."
                if self.columns
                else "New columns of tables are in its maps anyway. Leave newColumns out, or set table.",
            )
        if self.min_rows_per_batch > self.max_rows_per_batch:
            raise ConfigError(
                f"minRowsPerBatch, {self.min_rows_per_batch}, is above maxRowsPerBatch,"
                f" {self.max_rows_per_batch}.",
                hint="Lower minRowsPerBatch: a micro-batch would wait for rows that it may not have.",
            )

    def gateway_client(self) -> GatewayClient:
        """Return a connection to the gateway."""
        tls = Tls(self.tls_ca, self.tls_cert, self.tls_key)
        shared_memory = self.shared_memory
        return GatewayClient(self.gateway, self.destination, self.token, tls, shared_memory=shared_memory)

    def consumer(self) -> Consumer:
        """Return this query's consumer, not subscribed yet."""
        return Consumer(
            self.gateway_client(),
            self.client,
            self.filter,
            self.wait_s,
            retry_s=self.retry_s,
            snapshot=self.snapshot or None,
        )


def _text(_option: str, text: str) -> str:
    return text


def _file(_option: str, text: str) -> Path:
    return Path(text)


def _one_of(*choices: str) -> Callable[[str, str], str]:
    def read(option: str, text: str) -> str:
        if text.lower() not in choices:
            raise ConfigError(
                f"The option {option} cannot be {text!r}.", hint=f"It is one of {', '.join(choices)}."
            )
        return text.lower()

    return read


def _count(option: str, text: str) -> int:
    count = int(text) if text.isdecimal() and len(text) <= len(str(WHOLE.most)) else 0
    if not 0 < count <= WHOLE.most:
        raise ConfigError(
            f"The option {option} cannot be {shown(text)}.",
            hint=f"Expected a whole number from 1 to {WHOLE.most}.",
        )
    return count


def _seconds(option: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= SECONDS_MAX:
        raise ConfigError(
            f"The option {option} cannot be {shown(text)}.",
            hint=f"Expected a number of seconds from 0 to {SECONDS_MAX}.",
        )
    return seconds


def _flag(option: str, text: str) -> bool:
    return _one_of("true", "false")(option, text) == "true"


def _names(option: str, text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise ConfigError(
            f"The option {option} cannot be {text!r}.", hint="Expected column names, separated by commas."
        )
    return names


def moment_us(text: str) -> int | None:
    """Return the time in a position's text, microseconds since 1970 UTC; None if it is not a time."""
    return time_of(text, time.time_ns() // 1000)


def _position(*words: str) -> Callable[[str, str], str]:
    def read(option: str, text: str) -> str:
        if text.startswith("{"):
            GroupPosition.from_json(text)
        elif text.lower() in words:
            return text.lower()
        elif moment_us(text) is None:
            raise ConfigError(
                f"The option {option} cannot be {text!r}.",
                hint=f"Expected {', '.join(words)}, a time with its zone such as 2026-01-31T12:00:00Z, a time"
                " before now such as -2h, or a group position such as the offsets of a checkpoint hold.",
            )
        return text

    return read


#: key in an offset: the start of a query's first micro-batch
_FIRST = "began"

#: field -> Spark's name of the option, and the function that reads its text
_READ: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "gateway": ("gateway", _text),
    "destination": ("destination", _text),
    "client": ("client", _text),
    "format": ("format", _one_of(*FORMATS)),
    "table": ("table", _text),
    "filter": ("filter", _text),
    "columns": ("columns", _names),
    "token": ("token", _text),
    "tls_ca": ("tlsCa", _file),
    "tls_cert": ("tlsCert", _file),
    "tls_key": ("tlsKey", _file),
    "shared_memory": ("sharedMemory", _flag),
    "partitions": ("partitions", _count),
    "max_rows_per_batch": ("maxRowsPerBatch", _count),
    "max_bytes_per_batch": ("maxBytesPerBatch", _count),
    "min_rows_per_batch": ("minRowsPerBatch", _count),
    "max_delay_s": ("maxDelaySeconds", _seconds),
    "quiet_s": ("quietSeconds", _seconds),
    "starting_position": ("startingPosition", _position(CURSOR, EARLIEST, LATEST)),
    "snapshot": ("snapshot", _one_of(*SNAPSHOT)),
    "ending_position": ("endingPosition", _position(LATEST)),
    "preimages": ("preimages", _flag),
    "new_columns": ("newColumns", _one_of(*NEW_COLUMNS)),
    "unsigned_bigint": ("unsignedBigint", _one_of(*UNSIGNED_BIGINT)),
    "retry_s": ("retrySeconds", _seconds),
    "wait_s": ("waitSeconds", _seconds),
}
assert _READ.keys() == {each.name for each in fields(Options)}, "every option is read"


def as_offset(position: GroupPosition, first: GroupPosition | None = None) -> dict[str, Any]:
    """Return a position as a Spark offset: a JSON object with the same text for the same position.

    Args:
        position: the end of a micro-batch.
        first: its start, if it is a query's first. Spark stores only the ends. If that micro-batch was not
            committed, Spark asks for its start again, when the cursor or the latest position has moved.
    """
    offset: dict[str, Any] = json.loads(position.to_json())
    return offset if first is None else offset | {_FIRST: json.loads(first.to_json())}


def first_of(offset: Mapping[str, Any]) -> GroupPosition | None:
    """Return the start of the micro-batch that ends at an offset, if it is a query's first; else None."""
    return from_offset(offset[_FIRST]) if _FIRST in offset else None


def from_offset(offset: Mapping[str, Any]) -> GroupPosition:
    """Return the position of a Spark offset.

    Raises:
        UsageError: it is not a position.
    """
    return GroupPosition.from_json(json.dumps(offset))
