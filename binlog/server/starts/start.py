"""Start: where a stream of a source begins, and whether it is requested by file and offset or by GTID.

A file and offset are valid in one server's binlog only. After a failover another server answers; the set of
GTIDs read so far then says what is missing, wherever the new server keeps it. So, by default:

- on the server that a position belongs to, a stream continues at its file and offset;
- on any other server it continues by GTID, and is refused where that is impossible. That server must have
  every transaction that was read before; the connection that dumps checks this. A server that lacks some of
  them lags behind and is retried. A server that has none of their sources belongs to another shard.

With `start_by: gtid` a stream always continues by GTID, with `file` never. With `time` it continues on
another server by GTID if it can, and else by commit time, see `by_time`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import pymysql

from canal_group.binlog.formats.events import MAGIC
from canal_group.binlog.schema.sql import plain_text
from canal_group.binlog.server.dump.dump_request import require_readable
from canal_group.binlog.server.source import (
    ServerFacts,
    SourceAddress,
    connect,
    query,
    query_one,
    server_facts,
)
from canal_group.binlog.server.starts.binary_logs import binlog_files, no_binlog
from canal_group.merge.errors import (
    DataError,
    Detail,
    PositionPurged,
    PositionRefused,
    SourceUnavailable,
    SourceUnfit,
)
from canal_group.merge.values.gtids.gtid import (
    NO_GTIDS,
    GtidSet,
    MariaDbGtidSet,
    MySqlGtidSet,
    parse_gtid_set,
)
from canal_group.merge.values.position import Position
from canal_group.merge.values.resets.reset import Absence, absence

StartBy: TypeAlias = Literal["auto", "gtid", "file", "time"]

PURGED_HINT = "Load the tables again, or start at a later position and accept that changes are missing."


def goes_by_gtid(address: SourceAddress, facts: ServerFacts, position: Position, start_by: StartBy) -> bool:
    """Return whether to request a stream from `position` by GTID, on the server that answers.

    Raises:
        SourceUnfit: the position is another server's and GTIDs cannot be used, or `start_by` requires GTIDs
            and the server writes none.
    """
    same = position.is_of(facts.identity)
    if start_by == "gtid" and not facts.gtids:
        raise SourceUnfit(
            f"The source of shard {address.name} at {address} writes no GTIDs, and start_by is gtid.",
            hint="Set gtid_mode = ON and enforce_gtid_consistency = ON there, or start_by: auto here.",
            shard=address.name,
        )
    if same and (start_by != "gtid" or not position.gtid_set):
        return False
    why_not = _why_not(facts, position, start_by)
    if why_not:
        raise SourceUnfit(
            f"Another server answers for shard {address.name} at {address}: {facts.identity} instead of "
            f"{position.server}, and {why_not}.",
            hint="A file and offset are valid on one server only: start again at a position of this server, "
            "or let the shard continue on it by commit time, with start_by: time.",
            shard=address.name,
            **_refused(facts, position),
        )
    if not facts.mariadb:
        require_readable(position.gtid_set, facts.number, address.name)
    return True


def goes_by_time(facts: ServerFacts, position: Position, start_by: StartBy) -> bool:
    """Return whether a stream continues from `position` by commit time, on the server that answers."""
    return (
        start_by == "time"
        and bool(_why_not(facts, position, start_by))
        and position.commit_us > 0
        and not position.rows_into_transaction
    )


def _why_not(facts: ServerFacts, position: Position, start_by: StartBy) -> str:
    """Return why a position cannot be found on another server by GTID; empty if it can."""
    if position.is_of(facts.identity):
        return ""
    gtids = position.gtid_set
    reasons = {
        "start_by is file": start_by == "file",
        "it writes no GTIDs": not facts.gtids,
        f"the position {position} has no GTIDs": not gtids,
        f"its GTIDs are not of the kind of {gtids}": isinstance(gtids, MariaDbGtidSet) != facts.mariadb,
        f"the position {position} is inside a transaction": position.rows_into_transaction > 0,
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def require_contained(
    address: SourceAddress, connection: pymysql.Connection[Any], facts: ServerFacts, position: Position
) -> None:
    """Return if a server has all transactions before a position.

    Raises:
        SourceUnavailable: it lacks some of them: it lags, or will never get them.
        SourceUnfit: it has no transaction of any source in the position's GTID set.
    """
    gtids = position.gtid_set
    executed = executed_gtids(address, connection, facts)
    if executed.contains(gtids):
        return
    server = f"Server {facts.identity}, which answers for shard {address.name} at {address},"
    details = {"shard": address.name, "executed": str(executed), "gtid_set": str(gtids)}
    unfit = {**details, **_refused(facts, position)}
    if not _sources(gtids) & _known_sources(address, connection, facts, executed):
        raise SourceUnfit(
            f"{server} has nothing in common with what was read: it executed {executed or 'nothing'}, the "
            f"position is after {gtids}.",
            hint="Check host and port: this may be another shard's server. A replica that has not begun to "
            "replicate can be read once it has caught up.",
            **unfit,
        )
    if _wrote_other_ones(address, connection, facts, executed, gtids):
        raise SourceUnfit(
            f"{server} has diverged from what was read: each has transactions that the other lacks. "
            f"It executed {executed}, the position is after {gtids}.",
            hint="A failover, a reset or a restore has lost transactions that were read. Read a server that "
            "has them, or move the client ids to a position of this one: canal-group rewind.",
            **unfit,
        )
    raise SourceUnavailable(
        f"{server} lacks transactions that were read: it executed {executed}, the position is after {gtids}. "
        "The shard continues when the server has caught up. If a failover lost them, it never will: start "
        "again at a position of the server.",
        **details,
    )


def _refused(facts: ServerFacts, position: Position) -> dict[str, Detail]:
    """Return the details from which a group knows that a position is of another server than `facts`."""
    return {"refused": position.to_json(), "answering": facts.identity}


def _wrote_other_ones(
    address: SourceAddress,
    connection: pymysql.Connection[Any],
    facts: ServerFacts,
    executed: GtidSet,
    gtids: GtidSet,
) -> bool:
    """Return whether a server that replicates nobody has transactions of its own that were not read.

    One that replicates may execute transactions in another order for a while.
    """
    if gtids.contains(executed):
        return False
    if facts.mariadb:
        row = query_one(address, connection, "SHOW GLOBAL STATUS LIKE 'Slaves_running'")
        return not row.number("Value")
    return not query(address, connection, "SHOW REPLICA STATUS")


def executed_gtids(
    address: SourceAddress, connection: pymysql.Connection[Any], facts: ServerFacts
) -> GtidSet:
    """Return the GTIDs of the transactions that a server has; on MariaDB its own and replicated ones."""
    if not facts.mariadb:
        return _gtids(query_one(address, connection, "SELECT @@global.gtid_executed AS gtids")["gtids"])
    asked = "SELECT @@global.gtid_binlog_pos AS written, @@global.gtid_slave_pos AS replicated"
    row = query_one(address, connection, asked)
    return _gtids(row["written"]).union(_gtids(row["replicated"]))


def _sources(gtids: GtidSet) -> set[str]:
    """Return which sources numbered the transactions of a set: uuids, or MariaDB's "domain-server"."""
    if isinstance(gtids, MySqlGtidSet):
        return {uuid for (uuid, _), _ in gtids.runs}
    if isinstance(gtids, MariaDbGtidSet):
        return {f"{domain}-{server}" for domain, server, _ in gtids.domains}
    return set()


def _known_sources(
    address: SourceAddress, connection: pymysql.Connection[Any], facts: ServerFacts, executed: GtidSet
) -> set[str]:
    """Return the sources whose transactions a server has.

    MariaDB's GTID set names only the last server of each domain; its binlog state names all.
    """
    if not facts.mariadb:
        return _sources(executed)
    state = query_one(address, connection, "SELECT @@global.gtid_binlog_state AS state")["state"] or ""
    return _sources(executed) | {each.strip().rpartition("-")[0] for each in state.split(",")}


def past_purged(
    address: SourceAddress,
    connection: pymysql.Connection[Any],
    facts: ServerFacts,
    position: Position,
    error: PositionPurged,
) -> Position:
    """Return where to continue when this server no longer has the file of a position.

    That is the beginning of its oldest file, provided that every transaction before it was read already. This
    holds for an idle source that rotated and purged its files.

    Raises:
        PositionPurged: `error`, because transactions are missing, or GTIDs do not prove that none is.
        PositionRefused: the file was not purged: it is newer than the oldest file, and was never there; or as
            `require_not_reset`.
    """
    oldest = earliest_position(address, connection, facts)
    if absence(position.file, oldest.file) is Absence.RESET:
        executed = executed_gtids(address, connection, facts)
        raise PositionRefused(
            f"The source of shard {address.name} has no {position.file}, though it has the older "
            f"{oldest.file}: the binary logs were reset, or another server answers. "
            f"{both_sets(executed, position.gtid_set)}",
            hint=PURGED_HINT,
            shard=address.name,
            file=position.file,
            offset=position.offset,
            oldest_file=oldest.file,
            newest_file=binlog_files(address, connection)[-1],
            executed=str(executed),
            gtid_set=str(position.gtid_set),
        )
    require_not_reset(address, connection, facts, position)
    # A position without GTIDs proves nothing, except on MariaDB, where every transaction has a GTID.
    told = facts.gtids and (bool(position.gtid_set) or facts.mariadb)
    whole = told and position.gtid_set.contains(oldest.gtid_set) and not position.rows_into_transaction
    if not whole:
        raise error
    return replace(position, file=oldest.file, offset=oldest.offset, server=facts.identity, created_s=0)


def require_not_reset(
    address: SourceAddress, connection: pymysql.Connection[Any], facts: ServerFacts, position: Position
) -> None:
    """Return unless GTIDs prove that a server was reset, or restored from a copy, since a position was read.

    Raises:
        PositionRefused: it lacks transactions before the position. That is not a purge.
    """
    gtids = position.gtid_set
    if not facts.gtids or not gtids or isinstance(gtids, MariaDbGtidSet) != facts.mariadb:
        return
    executed = executed_gtids(address, connection, facts)
    if executed.contains(gtids):
        return
    raise PositionRefused(
        f"The source of shard {address.name} at {address} lacks transactions that were read: it was reset "
        f"or restored from an older copy. {both_sets(executed, gtids)} The position is {position}.",
        hint="Read a server that has these transactions, or move the client ids to a position of this one: "
        "canal-group rewind.",
        shard=address.name,
        file=position.file,
        offset=position.offset,
        executed=str(executed),
        gtid_set=str(gtids),
    )


def both_sets(executed: GtidSet, gtids: GtidSet) -> str:
    """Return the GTIDs that a server has and those of a position, as a sentence of an error."""
    return f"It executed {executed or 'nothing'}, the position is after {gtids or 'unknown GTIDs'}."


def explained_by_gtid(
    address: SourceAddress, error: DataError, position: Position, details: Mapping[str, Detail]
) -> DataError:
    """Return a refusal of a stream by GTID, with the set that was refused and the GTIDs that were purged.

    Args:
        address: the source.
        error: what it answered.
        position: what was requested.
        details: details of the error.
    """
    gtids = str(position.gtid_set)
    message = f"{error.message} The position is after {gtids}."
    if not isinstance(error, PositionPurged):
        hint = error.hint
        if isinstance(position.gtid_set, MariaDbGtidSet):
            hint = "If the server is a replica that lags, the shard continues when it has caught up."
        return type(error)(message, hint=hint, **{**details, "gtid_set": gtids})
    missing, oldest = _missing(address, position.gtid_set), oldest_file(address)
    return PositionPurged(
        f"{message} Missing are {missing or 'transactions that cannot be determined'}. "
        f"The oldest file available is {oldest or 'unknown'}.",
        hint=PURGED_HINT,
        **{**details, "gtid_set": gtids, "missing": missing, "oldest_file": oldest},
    )


def _missing(address: SourceAddress, gtids: GtidSet) -> str | None:
    """Return which transactions after `gtids` a source no longer has; None if it does not answer."""
    try:
        with contextlib.closing(connect(address)) as connection:
            facts = server_facts(address, connection)
            if facts.mariadb:
                oldest = earliest_position(address, connection, facts)
                return f"those after {gtids}, up to {oldest.gtid_set}"
            asked = f"SELECT GTID_SUBTRACT(@@global.gtid_purged, {plain_text(str(gtids))}) AS gtids"
            return str(_gtids(query_one(address, connection, asked)["gtids"])) or None
    except (SourceUnavailable, DataError):
        return None


def earliest_position(
    address: SourceAddress, connection: pymysql.Connection[Any], facts: ServerFacts
) -> Position:
    """Return the beginning of a source's oldest binlog file, with the GTID set of everything before it.

    Raises:
        SourceUnfit: the source has no binlog.
    """
    files = binlog_files(address, connection)
    if not files:
        raise no_binlog(address)
    file, offset = files[0], len(MAGIC)
    if facts.mariadb:
        gtids = gtids_at(address, connection, file, offset)
    else:
        gtids = _gtids(query_one(address, connection, "SELECT @@global.gtid_purged AS gtids")["gtids"])
    return Position(file, offset, gtid_set=gtids, server=facts.identity)


def oldest_file(address: SourceAddress) -> str | None:
    """Return the name of the oldest binlog file of a source; None if it does not answer or has none."""
    try:
        with contextlib.closing(connect(address)) as connection:
            files = binlog_files(address, connection)
    except (SourceUnavailable, DataError):
        return None
    return files[0] if files else None


def gtids_at(address: SourceAddress, connection: pymysql.Connection[Any], file: str, offset: int) -> GtidSet:
    """Return the GTIDs before an offset of a MariaDB server's binlog file.

    Raises:
        SourceUnavailable: the server cannot say: the offset is beyond 4 GiB, or the file was purged.
    """
    text = query_one(address, connection, f"SELECT BINLOG_GTID_POS({plain_text(file)}, {offset}) AS gtids")[
        "gtids"
    ]
    if text is None:
        raise SourceUnavailable(
            f"The source of shard {address.name} does not say which GTIDs are before {file}:{offset}: "
            "MariaDB cannot beyond 4 GiB of a file, nor in a file that was purged meanwhile. The reader asks "
            "again. The next file begins after the transaction that is being written (FLUSH BINARY LOGS "
            "begins it).",
            shard=address.name,
            file=file,
            offset=offset,
        )
    return _gtids(text)


def _gtids(text: str | None) -> GtidSet:
    return parse_gtid_set(str(text)) if text else NO_GTIDS
