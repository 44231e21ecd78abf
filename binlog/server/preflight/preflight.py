"""Preflight: checks whether a source can be followed, before every stream.

Each check says what was found, and names the statement that fixes it. The checks only read; they write
nothing to the source. A setting that a server does not know passes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import pymysql

from canal_group.binlog.schema.statement import ServerVersion
from canal_group.binlog.server.definitions.dictionary import Dictionary
from canal_group.binlog.server.dump.registration import register
from canal_group.binlog.server.preflight.grants import Grant, read_grant
from canal_group.binlog.server.preflight.session_formats import formats_found
from canal_group.binlog.server.replication import times_found
from canal_group.binlog.server.semi_sync.source_side import found_at
from canal_group.binlog.server.source import (
    ServerFacts,
    SourceAddress,
    connect,
    query,
    query_one,
    server_facts,
)
from canal_group.merge.errors import SourceUnfit

_MARIADB_MONITOR_SINCE = (10, 5)
#: privileges that show the definition of a table
_SHOWING = {"SELECT", "REFERENCES", "ALL", "ALL PRIVILEGES"}


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check of a source."""

    name: str
    ok: bool
    #: what was found
    found: str
    #: a statement or setting that makes the check pass; with `ok`, a setting that enables more; empty:
    #: nothing to do
    fix: str = ""


#: variable -> allowed values, and the statement that sets an allowed value
_SETTINGS: dict[str, tuple[frozenset[str], str]] = {
    "log_bin": (
        frozenset({"ON", "1"}),
        "Add log_bin = mysql-bin to the server's configuration and restart it.",
    ),
    # MariaDB 12.3 and later; unset is shown as empty.
    "binlog_storage_engine": (
        frozenset({"", "NONE"}),
        "Remove binlog_storage_engine from the server's configuration and restart it.",
    ),
    "binlog_format": (frozenset({"ROW"}), "SET GLOBAL binlog_format = 'ROW';"),
    "binlog_row_image": (
        frozenset({"FULL", "FULL_NODUP", "MINIMAL", "NOBLOB"}),
        "SET GLOBAL binlog_row_image = 'FULL';",
    ),
    "binlog_row_value_options": (
        frozenset({"", "PARTIAL_JSON"}),
        "SET GLOBAL binlog_row_value_options = '';",
    ),
}
#: variable -> value -> what it means to a reader of the stream
_MEANINGS = {
    "binlog_storage_engine": {
        "INNODB": "INNODB: the binlog is stored in InnoDB, and its events have no offsets to continue at",
    },
    "binlog_row_image": {
        "MINIMAL": "MINIMAL: columns that a change does not need are absent, not null",
        "NOBLOB": "NOBLOB: BLOB and TEXT columns that a change does not need are absent, not null",
    },
}


#: from each of MySQL's modes the next one towards ON: a server refuses to skip one
_GTID_STEPS = {"OFF": "OFF_PERMISSIVE", "OFF_PERMISSIVE": "ON_PERMISSIVE", "ON_PERMISSIVE": "ON"}


def preflight(address: SourceAddress, allow: Collection[str] = (), *, gtids: bool = False) -> list[Check]:
    """Check a source.

    Args:
        address: the source and the account that will read it.
        allow: names of checks that may fail: they are returned as passed, with what was found.
        gtids: whether the source has to write GTIDs.

    Returns:
        Every check, in the order in which an operator should fix them.

    Raises:
        SourceUnavailable: the source does not answer.
        SourceUnfit: the source does not let the account in.
    """
    connection = connect(address)
    try:
        facts = server_facts(address, connection)
        checks = [_setting(facts, name) for name in _SETTINGS]
        formats = formats_found(address, connection, facts)
        checks += [Check("binlog_format of sessions", True, *formats)] if formats is not None else []
        checks += [_gtids(facts)] if gtids else []
        checks += [Check("semi_sync", *found_at(facts.variables))] if address.semi_sync != "off" else []
        times = times_found(address, connection, facts, lambda: account_of(address, connection))
        checks += [Check("reader.commit_time", True, *times)] if times is not None else []
        checks += _privileges(address, connection, facts)
        checks += [_knows_tables(address, connection, facts)]
        checks += _server_ids(address, connection, facts)
    finally:
        connection.close()
    return [Check(each.name, each.ok or each.name in allow, each.found, each.fix) for each in checks]


def require(checks: Iterable[Check], shard: str = "") -> None:
    """Return if every check passed.

    Raises:
        SourceUnfit: a check failed. The error names each failure, and its hint what fixes them.
    """
    failed = [check for check in checks if not check.ok]
    if failed:
        of_shard = f" of shard {shard}" if shard else ""
        found = "; ".join(f"{check.name} is {check.found}" for check in failed)
        raise SourceUnfit(
            f"The source{of_shard} cannot be followed: {found}.",
            hint=" ".join(check.fix for check in failed),
            shard=shard or None,
            check=failed[0].name,
        )


def _setting(facts: ServerFacts, name: str) -> Check:
    allowed, fix = _SETTINGS[name]
    value = facts.variables.get(name)
    if value is None:
        return Check(name, ok=True, found="not known to this server")
    image = (facts.variables.get("binlog_row_image") or "FULL").upper()
    if name == "binlog_row_value_options" and value.upper() == "PARTIAL_JSON" and image != "FULL":
        found = f"PARTIAL_JSON with binlog_row_image {image}: changes of documents lack the documents"
        return Check(name, ok=False, found=found, fix=_SETTINGS["binlog_row_image"][1])
    ok = value.upper() in allowed
    found = _MEANINGS.get(name, {}).get(value.upper(), value or "empty")
    return Check(name, ok, found, "" if ok else fix)


def _gtids(facts: ServerFacts) -> Check:
    if facts.mariadb:
        return Check("gtid_mode", ok=True, found="not needed: MariaDB gives every transaction a GTID")
    mode = facts.variables.get("gtid_mode", "").upper()
    if facts.gtids:
        return Check("gtid_mode", ok=True, found=mode)
    if mode not in _GTID_STEPS:
        return Check("gtid_mode", ok=False, found="not known to this server", fix="Set start_by: auto.")
    steps, found = ["SET GLOBAL enforce_gtid_consistency = ON;"], mode
    while mode in _GTID_STEPS:
        mode = _GTID_STEPS[mode]
        steps.append(f"SET GLOBAL gtid_mode = {mode};")
    return Check("gtid_mode", ok=False, found=found, fix=" ".join(steps))


def _privileges(
    address: SourceAddress, connection: pymysql.Connection[Any], facts: ServerFacts
) -> list[Check]:
    account = account_of(address, connection)
    granted = _granted(address, connection, facts)
    monitor = (
        "BINLOG MONITOR" if facts.mariadb and facts.number >= _MARIADB_MONITOR_SINCE else "REPLICATION CLIENT"
    )
    may_read = bool(granted & {"REPLICATION SLAVE", "REPLICATION REPLICA"}) or _may_register(
        address, connection
    )
    may_look = monitor in granted or _may_look(address, connection, facts)
    return [
        _privilege("REPLICATION SLAVE", may_read, account),
        _privilege(monitor, may_look, account),
    ]


def _privilege(name: str, ok: bool, account: str) -> Check:
    return Check(
        name, ok, "granted" if ok else "not granted", "" if ok else f"GRANT {name} ON *.* TO {account};"
    )


def _knows_tables(address: SourceAddress, connection: pymysql.Connection[Any], facts: ServerFacts) -> Check:
    """Check whether the account may see definitions of tables, which table maps lack in part.

    With full row metadata a stream works without: the check does not fail then.
    """
    name = "SELECT or REFERENCES"
    if _granted(address, connection, facts) & {"SELECT", "REFERENCES"}:
        return Check(name, ok=True, found="granted")
    # A grant on a schema or a table will do; the tables need not exist yet.
    somewhere = any(
        each.privileges & _SHOWING and not each.everywhere for each in _grants(address, connection, facts)
    )
    if somewhere or Dictionary(address, connection, facts).shows_some():
        return Check(name, ok=True, found="granted on some tables")
    full = facts.variables.get("binlog_row_metadata", "").upper() == "FULL"
    if full and not facts.mariadb:
        return Check(name, ok=True, found="not granted, not needed: binlog_row_metadata is FULL")
    without = (
        "UUID, INET4 and INET6 columns become bytes, times in the old format lose their fractions"
        if full
        else "rows come without column names"
    )
    return Check(
        name,
        ok=full,
        found=f"not granted: {without}",
        fix=f"GRANT REFERENCES ON *.* TO {account_of(address, connection)};",
    )


def account_of(address: SourceAddress, connection: pymysql.Connection[Any]) -> str:
    """Return the account that a connection has, as statements name it."""
    row = query_one(address, connection, "SELECT CURRENT_USER() AS account")
    user, _, host = str(row["account"]).rpartition("@")
    return f"`{user}`@`{host}`"


def _grants(address: SourceAddress, connection: pymysql.Connection[Any], facts: ServerFacts) -> list[Grant]:
    version = ServerVersion.parse(facts.version)
    texts = (str(next(iter(row.values()))) for row in query(address, connection, "SHOW GRANTS"))
    return [grant for text in texts if (grant := read_grant(text, version)) is not None]


def _granted(address: SourceAddress, connection: pymysql.Connection[Any], facts: ServerFacts) -> set[str]:
    """Return the account's global privileges; those it has through a role may be missing."""
    grants = _grants(address, connection, facts)
    found = {name for grant in grants if grant.everywhere for name in grant.privileges}
    if found & {"ALL", "ALL PRIVILEGES"}:
        found |= {"REPLICATION SLAVE", "REPLICATION CLIENT", "BINLOG MONITOR", "SELECT"}
    return found


def _may_register(address: SourceAddress, connection: pymysql.Connection[Any]) -> bool:
    """Try to register as a replica: a role may allow what the grants do not name."""
    try:
        register(connection, address)
    except pymysql.MySQLError:
        return False
    return True


def _may_look(address: SourceAddress, connection: pymysql.Connection[Any], facts: ServerFacts) -> bool:
    try:
        query(address, connection, facts.binlog_status_statement)
    except SourceUnfit:
        return False
    return True


def _server_ids(
    address: SourceAddress, connection: pymysql.Connection[Any], facts: ServerFacts
) -> list[Check]:
    mine = address.server_id
    checks = [_own_id(facts, mine)]
    try:
        replicas = query(address, connection, facts.replicas_statement)
    except SourceUnfit:
        # MariaDB requires REPLICATION MASTER ADMIN here, which a reader does not need otherwise.
        return [*checks, Check("other replicas", ok=True, found="unknown: the account may not list them")]
    others = {
        str(row.get("Host", ""))
        for row in replicas
        if row.number("Server_id" if "Server_id" in row else "Server_Id") == mine
    } - {address.host_name}
    if not others:
        return [*checks, Check("other replicas", ok=True, found=f"none has server id {mine}")]
    fix = f"Set another server_id than {mine} for shard {address.name}."
    return [
        *checks,
        Check("other replicas", ok=False, found=f"{sorted(others)} with server id {mine}", fix=fix),
    ]


def _own_id(facts: ServerFacts, mine: int) -> Check:
    if not facts.server_id:
        fix = "Add server_id = 1 (or any other unique number) to the server's configuration and restart it."
        return Check("server_id", ok=False, found="0, and a server with id 0 refuses replicas", fix=fix)
    if not mine or mine == facts.server_id:
        fix = f"Set a server_id other than 0 and {facts.server_id} for this shard's reader."
        return Check("server_id", ok=False, found=f"{facts.server_id}, ours is {mine}", fix=fix)
    return Check("server_id", ok=True, found=f"{facts.server_id}, ours is {mine}")
