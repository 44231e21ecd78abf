"""Replication: whether a source replicates other servers, so that older commits of theirs may still come.

A source counts as a replica unless it shows the contrary: an account may lack the privilege to ask, and a
member of a replication group receives what the other members commit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pymysql

from canal_group.binlog.server.source import ServerFacts, SourceAddress, query
from canal_group.merge.errors import SourceUnfit

#: in MariaDB; shows all connections to sources at once
_MARIADB_STATUS = "SHOW ALL SLAVES STATUS"
#: no row where the plugin is not loaded
_GROUP = "SHOW GLOBAL VARIABLES LIKE 'group_replication_group_name'"
#: since when MySQL has SHOW REPLICA STATUS, and since when its binlog has commit times of two servers
_REPLICA_SINCE, _TIMES_SINCE = (8, 0, 22), (8, 0, 1)


def replicates(
    address: SourceAddress, connection: pymysql.Connection[Any], facts: ServerFacts
) -> bool | None:
    """Return whether a server is configured to replicate others, now; None: the account may not ask.

    Args:
        address: the server.
        connection: an open connection to it.
        facts: what it reports about itself.

    Raises:
        SourceUnavailable: the connection broke.
    """
    try:
        if query(address, connection, _status(facts)):
            return True
    except SourceUnfit:
        return None
    return not facts.mariadb and any(row["Value"] for row in query(address, connection, _GROUP))


def lag_s(address: SourceAddress, connection: pymysql.Connection[Any], facts: ServerFacts) -> int | None:
    """Return how far a server is behind the servers that it replicates; None: it applies nothing of any.

    Args:
        address: the server.
        connection: an open connection to it.
        facts: what it reports about itself.

    Raises:
        SourceUnavailable: the connection broke.
        SourceUnfit: the account may not ask.
    """
    lags = [
        int(value)
        for row in query(address, connection, _status(facts))
        if (value := row.get("Seconds_Behind_Source", row.get("Seconds_Behind_Master"))) is not None
    ]
    return max(lags, default=None)


def _status(facts: ServerFacts) -> str:
    if facts.mariadb:
        return _MARIADB_STATUS
    return "SHOW REPLICA STATUS" if facts.number >= _REPLICA_SINCE else "SHOW SLAVE STATUS"


def times_found(
    address: SourceAddress,
    connection: pymysql.Connection[Any],
    facts: ServerFacts,
    account: Callable[[], str],
) -> tuple[str, str] | None:
    """Return the meaning of `reader.commit_time` on a server, and the remedy; None: nothing to say.

    Args:
        address: the server.
        connection: an open connection to it.
        facts: what it reports about itself.
        account: returns the account of the connection, quoted.

    Raises:
        SourceUnavailable: the connection broke.
    """
    times = address.commit_times
    own = not facts.mariadb and facts.number >= _TIMES_SINCE
    if not times.original and own:
        return None
    found = replicates(address, connection, facts)
    if found is None and facts.variables.get("gtid_slave_pos"):
        found = True
    if not times.original:
        says = "replica, but its binlog has only the commit times of its origin: what it lags comes late"
        return (says, "Set commit_time: origin and replica_lag_max_s.") if found else None
    if found is False:
        return "origin: it replicates no server", ""
    held = f"while it is idle, other shards wait {times.replica_lag_max_us / 1e6:g} s for it"
    if found:
        return f"origin: it is a replica; {held}", ""
    privilege = "SLAVE MONITOR" if facts.mariadb else "REPLICATION CLIENT"
    says = f"origin: the account may not ask whether it is a replica; {held}"
    return says, f"GRANT {privilege} ON *.* TO {account()};"


class Withheld:
    """By how much the low watermarks of one source are lowered; see `canal_group.merge.values.commit_time`.

    An answer of the source says nothing of the time before it, when the socket may have been found empty. So
    a low watermark is lowered if the last answer or the one before asks for it.

    Args:
        address: the source.
        facts: what it reports about itself.
    """

    def __init__(self, address: SourceAddress, facts: ServerFacts) -> None:
        self._address = address
        self._facts = facts
        self._answers_us = 0, address.commit_times.withheld_us(replicates=True)

    @property
    def us(self) -> int:
        """By how much, microseconds."""
        return max(self._answers_us)

    def ask(self, connection: pymysql.Connection[Any]) -> None:
        """Ask the source again whether it replicates, if that matters.

        Raises:
            SourceUnavailable: the connection broke.
        """
        times = self._address.commit_times
        if times.original:
            found = replicates(self._address, connection, self._facts)
            self._answers_us = self._answers_us[1], times.withheld_us(replicates=found is not False)
