"""Sources: the address of a shard's server, and connections to it whose errors are ours.

A server that refuses a connection, breaks it or does not answer raises SourceUnavailable: retry later. A
server that denies access raises SourceUnfit: its operator must act. No error of the driver leaves this
package.
"""

from __future__ import annotations

import contextlib
import logging
import re
import ssl
import struct
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, Final, cast

import pymysql
from pymysql.constants import ER

from canal_group.binlog.archive.options import ArchiveOptions
from canal_group.binlog.server.access_hint import ACCESS_CODES, access_hint
from canal_group.binlog.server.answers import ANSWER, AnswerBounds, AnswerUnbounded, BoundedConnection, Row
from canal_group.binlog.server.dump.spool import SPOOL_BYTES_MAX
from canal_group.binlog.server.login import GuardedConnection, LoginRefused, tls_context
from canal_group.binlog.server.password import PasswordMissing, RenewedPassword
from canal_group.binlog.server.semi_sync.source_side import VARIABLES, SemiSyncMode
from canal_group.merge.errors import (
    CanalGroupError,
    DataError,
    PositionPurged,
    SourceUnavailable,
    SourceUnfit,
    UsageError,
)
from canal_group.merge.file_name import server_identity
from canal_group.merge.values.commit_time import CommitTimes

_HOST_NAME_BYTES = 60
#: smallest server id of a scan
_SCAN_ID_MIN = 1 << 31
#: the server does not understand a statement or a variable that this package needs
_NOT_UNDERSTOOD = {ER.PARSE_ERROR, ER.UNKNOWN_SYSTEM_VARIABLE}
_BINLOG_ERROR = 1236
#: errors of the driver on packets that no server sends: it indexes, unpacks, decodes and asserts, and refuses
#: a request for one of our files
_STRANGE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
    struct.error,
)
#: codes of the driver's own errors, which quote nothing of a server
_OF_DRIVER: Final = range(2000, 3000)
#: what frequent codes of servers mean: their own texts may quote values of rows
_MEANINGS: Final = {
    1040: "too many connections",
    1045: "Access denied",
    1049: "there is no such schema",
    1053: "the server shuts down",
    1054: "it has no column of a name",
    1142: "SELECT is not granted",
    1143: "SELECT is not granted on a column",
    1146: "there is no such table",
    1205: "a lock was not released in time",
    1213: "a deadlock",
    1317: "the statement was interrupted",
    1927: "the connection was killed",
    3024: "the statement took too long",
}
#: how long an error is not logged again, seconds
_LOGGED_AGAIN_S: Final = 60
_PURGED = re.compile(
    r"could not find first log file|purged (required )?binary log|required binlog files have been purged",
    re.IGNORECASE,
)
_SAME_ID = re.compile(r"same server_(uu)?id", re.IGNORECASE)


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SourceAddress:
    """Where a shard's server listens, and as which account and replica it is read."""

    #: the shard's name within its group; empty for a server that only answers lookups of tables
    name: str
    host: str
    port: int
    user: str
    password: str | RenewedPassword = field(repr=False)
    #: the reader's own id as a replica: unique among all replicas of the source
    server_id: int
    _: KW_ONLY
    #: the destination this reader serves; part of the name under which the source lists it
    destination: str = ""
    connect_timeout_s: float
    #: a source that is silent for this long, although it sends heartbeats, counts as unavailable
    read_timeout_s: float
    #: interval between the heartbeats of an idle source
    heartbeat_ms: int
    #: whether, and when, a source with semi-synchronous replication is told that a transaction is safe here
    semi_sync: SemiSyncMode
    #: which server's commit times are read
    commit_times: CommitTimes
    #: `ca cert key verify`: TLS is then required; None: no TLS
    ssl: Mapping[str, Any] | None = None
    #: whether the server may ask for the password in clear text, over TLS that verifies it
    clear_password: bool = False
    #: limit of what its dump server retains, bytes, see `canal_group.binlog.dump_server`; 0: the reader uses
    #: none
    dump_window_bytes_max: int = 0
    #: where the dump server archives the source's binlog; None: no archive
    archive: ArchiveOptions | None = None
    #: limit of what a first start keeps on disk of the backlog that it searches for statements, bytes, see
    #: `canal_group.binlog.server.dump.spool`; 0: it keeps nothing, and the source sends the backlog twice
    spool_bytes_max: int = SPOOL_BYTES_MAX

    @property
    def host_name(self) -> str:
        """The name under which the source lists this reader, at most 60 bytes."""
        name = f"canal-group:{self.destination}/{self.name}".encode()[:_HOST_NAME_BYTES]
        return name.decode("utf-8", "ignore")

    def scanner(self, purpose: str) -> SourceAddress:
        """Return the address under a server id of its own, which does not change for a purpose.

        A scan keeps nothing, so the source does not wait for it; it may wait for the dump server.
        """
        scan_id = _SCAN_ID_MIN + zlib.crc32(f"{self.server_id}/{purpose}".encode()) % (_SCAN_ID_MIN - 1)
        semi_sync: SemiSyncMode = "archive" if self.semi_sync == "archive" else "off"
        return replace(self, server_id=scan_id, semi_sync=semi_sync)

    @property
    def replies(self) -> bool:
        """Whether readers send semi-synchronous replies to the source on their own connections."""
        return self.semi_sync in ("ring", "cursor")

    @property
    def title(self) -> str:
        """The server as the subject of a sentence."""
        return f"The source of shard {self.name}" if self.name else "The server"

    @property
    def location(self) -> str:
        """Host and port of the server, for messages."""
        return f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.user}@{self.location}"


@contextlib.contextmanager
def translated(address: SourceAddress) -> Iterator[None]:
    """Turn the driver's and the socket's errors into ours."""
    try:
        yield
    except LoginRefused as refused:
        raise SourceUnfit(
            f"{address.title} at {address} {refused.what}.", hint=refused.hint, shard=address.name
        ) from refused
    except AnswerUnbounded as unbounded:
        raise SourceUnfit(
            f"{address.title} at {address} {unbounded}.",
            hint="No server of MySQL or MariaDB does that: check host and port, and what stands in between.",
            shard=address.name,
        ) from unbounded
    except pymysql.Error as error:
        cause = getattr(error, "original_exception", None)
        if isinstance(cause, ssl.SSLCertVerificationError):
            raise _not_trusted(address, cause) from error
        code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        text = str(error.args[1]) if len(error.args) > 1 else str(error)
        raise server_error(address, code, text) from error
    except OSError as error:
        raise SourceUnavailable(
            f"{address.title} at {address} broke the connection: {error}.", shard=address.name
        ) from error
    except _STRANGE as error:
        _note(address, 0, str(error))
        raise _strange(address, f"its packets are none ({type(error).__name__})") from error


def _strange(address: SourceAddress, why: str) -> SourceUnfit:
    return SourceUnfit(
        f"What answers at {address} does not follow the protocol of MySQL and MariaDB: {why}.",
        hint="Check host and port: another kind of server listens there.",
        shard=address.name,
    )


def _not_trusted(address: SourceAddress, error: ssl.SSLCertVerificationError) -> SourceUnfit:
    return SourceUnfit(
        f"{address.title} at {address} shows a certificate that is not trusted: {error.verify_message}.",
        hint="Check ssl.ca and the host name in the certificate; ssl.verify: false trusts any server.",
        shard=address.name,
    )


def server_error(address: SourceAddress, code: int, text: str) -> CanalGroupError:
    """Return our error for an error code of a server or of the driver.

    A server's text may quote values of rows: it is logged, and not in the error, which consumers may get.
    """
    if code in _OF_DRIVER:
        said = text
    else:
        said = _MEANINGS.get(code, "error")
        _note(address, code, text)
    if code in ACCESS_CODES:
        return SourceUnfit(
            f"{address.title} denies {address}: {said} ({code}).",
            hint=access_hint(address.user, code, text),
            shard=address.name,
            code=code,
        )
    if code == _BINLOG_ERROR:
        return _binlog_error(address, text)
    if code in _NOT_UNDERSTOOD:
        return SourceUnfit(
            f"{address.title} at {address} does not understand a statement ({code}).",
            hint="Expected MySQL 5.7 or later, or MariaDB 10.5 or later.",
            shard=address.name,
            code=code,
        )
    # Every other error that a server returns for these few statements is temporary: shutting down, too many
    # connections, killed, gone, still starting.
    return SourceUnavailable(
        f"{address.title} at {address} is not available: {said} ({code}).",
        shard=address.name,
        code=code,
    )


def _note(address: SourceAddress, code: int, text: str) -> None:
    """Log the number of an error, and its text as an exception, which operators alone see."""
    _log_text(address.name, address.location, code, text, int(time.monotonic() // _LOGGED_AGAIN_S))


@lru_cache(maxsize=64)
def _log_text(shard: str, location: str, code: int, text: str, _period: int) -> None:
    text_of_server = pymysql.MySQLError(code, text)
    _log.warning("%s answers with error %d", location, code, extra={"shard": shard}, exc_info=text_of_server)


def _binlog_error(address: SourceAddress, text: str) -> DataError:
    """Return our error for 1236, with which a server refuses a dump; only its text says why."""
    if _PURGED.search(text):
        return PositionPurged(
            f"{address.title} no longer has the position ({_BINLOG_ERROR}).", shard=address.name
        )
    if _SAME_ID.search(text):
        return SourceUnfit(
            f"Another replica uses server id {address.server_id} on the source of shard {address.name}"
            f" ({_BINLOG_ERROR}).",
            hint="Give each reader of a source its own server_id.",
            shard=address.name,
        )
    return DataError(
        f"{address.title} cannot serve the position ({_BINLOG_ERROR}).",
        hint="The position belongs to another source, or the binlog is damaged there: the log has its text.",
        shard=address.name,
    )


def connect(address: SourceAddress, *, read_timeout_s: float | None = None) -> pymysql.Connection[Any]:
    """Open a connection to a source.

    Raises:
        SourceUnavailable: no server answers, or it broke the connection; there is no renewed password.
        SourceUnfit: access was denied, or the server asks for the password where it may not be shown.
    """
    timeout_s = address.read_timeout_s if read_timeout_s is None else read_timeout_s
    renewed = address.password
    if isinstance(renewed, str):
        return _logged_in(address, renewed, timeout_s)
    remembered = renewed.remembered()
    if remembered is not None:
        try:
            return _logged_in(address, remembered, timeout_s)
        except SourceUnfit as error:
            if error.details.get("code") not in ACCESS_CODES:
                raise
            # It may have been replaced before its lifetime was over.
    try:
        password = renewed.read()
    except PasswordMissing as missing:
        raise SourceUnavailable(f"{address} {missing}.", shard=address.name) from missing
    return _logged_in(address, password, timeout_s)


def _logged_in(address: SourceAddress, password: str, timeout_s: float) -> pymysql.Connection[Any]:
    with translated(address):
        return GuardedConnection(
            tls=None if address.ssl is None else tls_context(address.ssl),
            clear=address.clear_password,
            host=address.host,
            port=address.port,
            user=address.user,
            password=password,
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=address.connect_timeout_s,
            read_timeout=timeout_s,
            write_timeout=timeout_s,
            program_name="canal-group",
        )


def query(
    address: SourceAddress, connection: pymysql.Connection[Any], sql: str, bounds: AnswerBounds = ANSWER
) -> list[Row]:
    """Run a statement and return its rows; all statements go through this function.

    Raises:
        SourceUnavailable: the connection broke.
        SourceUnfit: the account may not run it, or the answer exceeds its bounds.
    """
    with (
        translated(address),
        cast("BoundedConnection", connection).bounded(bounds),  # `connect` opens no other
        connection.cursor(pymysql.cursors.DictCursor) as cursor,
    ):
        cursor.execute(sql)
        return [Row(row, partial(_strange, address)) for row in cursor.fetchall()]


def set_session(values: Mapping[str, str]) -> str:
    """Return the statement that gives variables of a session their values."""
    return "SET " + ", ".join(f"SESSION {name} = {value}" for name, value in values.items())


def query_one(address: SourceAddress, connection: pymysql.Connection[Any], sql: str) -> Row:
    """Run a statement that has one row, and return that.

    Raises:
        SourceUnavailable: the connection broke.
        SourceUnfit: the account may not run it, or the answer has no row.
    """
    rows = query(address, connection, sql)
    if not rows:
        raise _strange(address, f"its answer to {sql!r} has no row")
    return rows[0]


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What a server reports about itself."""

    version: str
    server_id: int
    #: identifies the server: MySQL's uuid, or MariaDB's server id. Two unrelated MariaDB servers may share an
    #: id; the creation time of a file then tells their binlogs apart (ADR 8)
    identity: str
    #: global variables by lower-case name
    variables: Mapping[str, str]

    @property
    def mariadb(self) -> bool:
        """Whether it is a MariaDB server."""
        return "mariadb" in self.version.lower()

    @property
    def gtids(self) -> bool:
        """Whether every transaction has a GTID, so that a stream can be requested by GTID."""
        return self.mariadb or self.variables.get("gtid_mode", "").upper() == "ON"

    @property
    def commits_in_order(self) -> bool:
        """Whether a MySQL replica commits transactions in the order of its source; False on MariaDB."""
        if self.mariadb:
            return False
        names = ("replica", "slave")
        keeps = any(self.variables.get(f"{name}_preserve_commit_order", "").upper() == "ON" for name in names)
        workers = [self.variables.get(f"{name}_parallel_workers", "") for name in names]
        return keeps or any(each in ("0", "1") for each in workers)

    @property
    def number(self) -> tuple[int, ...]:
        """The version's numbers, for comparisons."""
        match = re.match(r"(?:5\.5\.5-)?(\d+)\.(\d+)\.(\d+)", self.version)
        return tuple(int(part) for part in match.groups()) if match else (0, 0, 0)

    @property
    def binlog_status_statement(self) -> str:
        """The statement that shows the end of the binlog: renamed in MySQL 8.2, the old name gone in 8.4."""
        if not self.mariadb and self.number >= (8, 2):
            return "SHOW BINARY LOG STATUS"
        return "SHOW MASTER STATUS"

    @property
    def replicas_statement(self) -> str:
        """The statement that lists the registered replicas: renamed in MySQL 8.0.22."""
        if not self.mariadb and self.number >= (8, 0, 22):
            return "SHOW REPLICAS"
        return "SHOW SLAVE HOSTS"


_VARIABLES = (
    "version",
    "server_id",
    "server_uuid",
    "log_bin",
    "binlog_storage_engine",
    "binlog_format",
    "binlog_row_image",
    "binlog_row_metadata",
    "binlog_row_value_options",
    "binlog_checksum",
    "gtid_mode",
    "replica_preserve_commit_order",
    "slave_preserve_commit_order",
    "replica_parallel_workers",
    "slave_parallel_workers",
    "gtid_slave_pos",
    *VARIABLES,
)


def server_facts(address: SourceAddress, connection: pymysql.Connection[Any]) -> ServerFacts:
    """Ask a server for its version, identity and the settings that matter here."""
    names = ", ".join(f"'{name}'" for name in _VARIABLES)
    rows = query(address, connection, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
    variables = {str(row["Variable_name"]).lower(): str(row["Value"]) for row in rows}
    server_id = Row(variables, partial(_strange, address)).number("server_id")
    try:
        identity = server_identity(variables.get("server_uuid") or str(server_id))
    except UsageError as error:
        raise _strange(address, error.message.rstrip(".")) from error
    return ServerFacts(
        version=variables.get("version", ""),
        server_id=server_id,
        identity=identity,
        variables=variables,
    )
