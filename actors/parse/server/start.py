"""Start: where a stream of a source begins, and whether that is told by a place or by GTIDs.

A place (file and offset) means something in one server's binlog only. After a failover another server
answers: then the set of GTIDs read so far says what is missing, wherever the new server has it. So, by
default:

- on the server that a position is of, a stream goes on at its file and offset;
- on any other one it goes on by GTID, and is refused where that cannot be. That server must have all that
  was read before: it is asked on the connection that dumps. One that lacks some of it lags and is asked
  again; one that has nothing in common with it is another shard's.

`gtid` goes on by GTID always, `file` never.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import pymysql

from actors.parse.formats.events import MAGIC
from actors.parse.server.dump_request import require_readable
from actors.parse.server.source import ServerFacts, SourceAddress, connect, query, query_one, server_facts
from merge.errors import DataError, Detail, PositionPurged, SourceUnavailable, SourceUnfit
from merge.values.gtid import NO_GTIDS, GtidSet, MariaDbGtidSet, MySqlGtidSet, parse_gtid_set
from merge.values.position import Position, file_order

StartBy: TypeAlias = Literal["auto", "gtid", "file"]

_PURGED_HINT = "Load the tables anew, or start at a later position knowing that changes are missing."


def goes_by_gtid(address: SourceAddress, facts: ServerFacts, position: Position, start_by: StartBy) -> bool:
    """Return whether a stream from `position` on is to be asked for by GTID, on the server that answers.

    Raises:
        SourceUnfit: the place is another server's and GTIDs cannot be used; or they must be and cannot.
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
            hint="Positions are places in one server's binlog: start anew with one of this server.",
            shard=address.name,
        )
    if not facts.mariadb:
        require_readable(position.gtid_set, facts.number, address.name)
    return True


def _why_not(facts: ServerFacts, position: Position, start_by: StartBy) -> str:
    """Return why a position cannot be found on another server by GTID; empty: it can."""
    if position.is_of(facts.identity):
        return ""
    gtids = position.gtid_set
    reasons = {
        "start_by is file": start_by == "file",
        "it writes no GTIDs": not facts.gtids,
        f"the position {position} has no GTIDs": not gtids,
        f"it has no GTIDs such as {gtids}": isinstance(gtids, MariaDbGtidSet) != facts.mariadb,
        f"the position {position} stands inside a transaction": position.rows_into_transaction > 0,
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def require_contained(
    address: SourceAddress, connection: pymysql.Connection[Any], facts: ServerFacts, position: Position
) -> None:
    """Return if a server has all transactions before a position.

    Raises:
        SourceUnavailable: it lacks some of them: it lags, or never gets them.
        SourceUnfit: it has none of the sources whose transactions they are.
    """
    gtids = position.gtid_set
    executed = _executed(address, connection, facts)
    if executed.contains(gtids):
        return
    if not _sources(gtids) & _known_sources(address, connection, facts, executed):
        raise SourceUnfit(
            f"Server {facts.identity}, which answers for shard {address.name} at {address}, has nothing in "
            f"common with what was read: it executed {executed or 'nothing'}, the position is after {gtids}.",
            hint="Check host and port: it may be another shard's server. A replica that has not begun to "
            "replicate is read as soon as it has caught up.",
            shard=address.name,
            executed=str(executed),
            gtid_set=str(gtids),
        )
    raise SourceUnavailable(
        f"Server {facts.identity}, which answers for shard {address.name} at {address}, lacks transactions "
        f"that were read: it executed {executed}, the position is after {gtids}. The shard goes on when the "
        "server has caught up. If a failover lost them, that is never: begin anew from a position there.",
        shard=address.name,
        executed=str(executed),
        gtid_set=str(gtids),
    )


def _executed(address: SourceAddress, connection: pymysql.Connection[Any], facts: ServerFacts) -> GtidSet:
    """Return the transactions that a server has; on MariaDB its own and those it replicated."""
    if not facts.mariadb:
        return _gtids(query_one(address, connection, "SELECT @@global.gtid_executed AS gtids")["gtids"])
    asked = "SELECT @@global.gtid_binlog_pos AS written, @@global.gtid_slave_pos AS replicated"
    row = query_one(address, connection, asked)
    return _gtids(row["written"]).union(_gtids(row["replicated"]))


def _sources(gtids: GtidSet) -> set[str]:
    """Return who numbered the transactions of a set: uuids, or MariaDB's "domain-server"."""
    if isinstance(gtids, MySqlGtidSet):
        return {uuid for (uuid, _), _ in gtids.runs}
    if isinstance(gtids, MariaDbGtidSet):
        return {f"{domain}-{server}" for domain, server, _ in gtids.domains}
    return set()


def _known_sources(
    address: SourceAddress, connection: pymysql.Connection[Any], facts: ServerFacts, executed: GtidSet
) -> set[str]:
    """Return whose transactions a server has; MariaDB's set names the last one of a domain, its state all."""
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
    """Return from where to go on instead of a position of this server whose file it no longer has.

    That is the beginning of its oldest file, if every transaction before it is before the position too. A
    source that only rotated and purged is such a one.

    Raises:
        PositionPurged: `error`: transactions are missing, or GTIDs do not say that none is.
        DataError: the file was not purged: it is newer than the oldest one, and was never there.
    """
    oldest = earliest_position(address, connection, facts)
    (base, number), (oldest_base, oldest_number) = file_order(position.file), file_order(oldest.file)
    if base == oldest_base and number > oldest_number:
        raise DataError(
            f"The source of shard {address.name} has no {position.file}, though it has the older "
            f"{oldest.file}: its binary logs were reset, or another server answers.",
            hint=_PURGED_HINT,
            shard=address.name,
            file=position.file,
            offset=position.offset,
            oldest_file=oldest.file,
        )
    # Without a GTID of its own a position says nothing, but on MariaDB, where every transaction has one.
    told = facts.gtids and (bool(position.gtid_set) or facts.mariadb)
    whole = told and position.gtid_set.contains(oldest.gtid_set) and not position.rows_into_transaction
    # After a reset the server lacks transactions that were read.
    if not whole or not _executed(address, connection, facts).contains(position.gtid_set):
        raise error
    return replace(position, file=oldest.file, offset=oldest.offset, server=facts.identity, created_s=0)


def explained_by_gtid(
    address: SourceAddress, error: DataError, position: Position, place: Mapping[str, Detail]
) -> DataError:
    """Return a refusal of a stream by GTID, with the set refused, and of purged transactions their GTIDs.

    Args:
        address: the source.
        error: what it answered.
        position: what was asked for.
        place: details of the error.
    """
    gtids = str(position.gtid_set)
    message = f"{error.message} The position is behind {gtids}."
    if not isinstance(error, PositionPurged):
        hint = error.hint
        if isinstance(position.gtid_set, MariaDbGtidSet):
            hint = "If the server is a replica that lags behind, the shard goes on when it has caught up."
        return type(error)(message, hint=hint, **{**place, "gtid_set": gtids})
    missing = _missing(address, position.gtid_set)
    return PositionPurged(
        f"{message} Missing are {missing or 'transactions that cannot be told'}.",
        hint=_PURGED_HINT,
        **{**place, "gtid_set": gtids, "missing": missing},
    )


def _missing(address: SourceAddress, gtids: GtidSet) -> str | None:
    """Return which transactions behind `gtids` a source no longer has; None if it cannot be asked."""
    try:
        with contextlib.closing(connect(address)) as connection:
            facts = server_facts(address, connection)
            if facts.mariadb:
                oldest = earliest_position(address, connection, facts)
                return f"those behind {gtids}, up to {oldest.gtid_set}"
            asked = f"SELECT GTID_SUBTRACT(@@global.gtid_purged, '{gtids}') AS gtids"
            return str(_gtids(query_one(address, connection, asked)["gtids"])) or None
    except (SourceUnavailable, DataError):
        return None


def latest_position(
    address: SourceAddress, connection: pymysql.Connection[Any], facts: ServerFacts
) -> Position:
    """Return the end of a source's binlog, with the GTID set of everything before it.

    MySQL shows both in one row. MariaDB is asked for the GTIDs at just that place.

    Raises:
        SourceUnfit: the source has no binlog.
    """
    rows = query(address, connection, facts.binlog_status_statement)
    if not rows:
        raise _no_binlog(address)
    file, offset = str(rows[0]["File"]), rows[0].number("Position")
    gtids = (
        gtids_at(address, connection, file, offset)
        if facts.mariadb
        else _gtids(rows[0].get("Executed_Gtid_Set"))
    )
    return Position(file, offset, gtid_set=gtids, server=facts.identity)


def earliest_position(
    address: SourceAddress, connection: pymysql.Connection[Any], facts: ServerFacts
) -> Position:
    """Return the beginning of a source's oldest binlog file, with the GTID set of everything before it.

    Raises:
        SourceUnfit: the source has no binlog.
    """
    files = binlog_files(address, connection)
    if not files:
        raise _no_binlog(address)
    file, offset = files[0], len(MAGIC)
    if facts.mariadb:
        gtids = gtids_at(address, connection, file, offset)
    else:
        gtids = _gtids(query_one(address, connection, "SELECT @@global.gtid_purged AS gtids")["gtids"])
    return Position(file, offset, gtid_set=gtids, server=facts.identity)


def oldest_file(address: SourceAddress) -> str | None:
    """Return the name of the oldest binlog file of a source; None if it cannot be asked."""
    try:
        with contextlib.closing(connect(address)) as connection:
            files = binlog_files(address, connection)
    except (SourceUnavailable, DataError):
        return None
    return files[0] if files else None


def binlog_files(address: SourceAddress, connection: pymysql.Connection[Any]) -> list[str]:
    """Return the names of a source's binlog files, the oldest first."""
    return [str(row["Log_name"]) for row in query(address, connection, "SHOW BINARY LOGS")]


def gtids_at(address: SourceAddress, connection: pymysql.Connection[Any], file: str, offset: int) -> GtidSet:
    """Return the GTIDs before a place of a MariaDB server.

    Raises:
        SourceUnavailable: it does not say: beyond 4 GiB it cannot, and a purged file it has no more.
    """
    text = query_one(address, connection, f"SELECT BINLOG_GTID_POS('{file}', {offset}) AS gtids")["gtids"]
    if text is None:
        raise SourceUnavailable(
            f"The source of shard {address.name} does not say which GTIDs are before {file}:{offset}: "
            "MariaDB cannot beyond 4 GiB of a file, nor in one that was purged meanwhile. It is asked again; "
            "its next file begins after the transaction that is being written (FLUSH BINARY LOGS begins it).",
            shard=address.name,
            file=file,
            offset=offset,
        )
    return _gtids(text)


def _gtids(text: str | None) -> GtidSet:
    return parse_gtid_set(str(text)) if text else NO_GTIDS


def _no_binlog(address: SourceAddress) -> SourceUnfit:
    return SourceUnfit(
        f"The source of shard {address.name} has no binlog.",
        hint="Add log_bin = mysql-bin to the server's configuration and restart it.",
        shard=address.name,
    )
