"""Server loads: what a server does beside, which pages must not make longer; and the limits of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import pymysql

from canal_group.binlog.server.access_hint import ACCESS_CODES
from canal_group.binlog.server.preflight.preflight import account_of
from canal_group.binlog.server.replication import lag_s
from canal_group.binlog.server.source import ServerFacts, SourceAddress, query
from canal_group.merge.errors import SourceUnfit

_THREADS: Final = "SHOW GLOBAL STATUS LIKE 'Threads_running'"
_MARIADB_HISTORY: Final = "SHOW GLOBAL STATUS LIKE 'Innodb_history_list_length'"
_METRIC: Final = "trx_rseg_history_len"
_MYSQL_HISTORY: Final = (
    f"SELECT COUNT AS Value FROM information_schema.INNODB_METRICS WHERE NAME = '{_METRIC}'"  # noqa: S608
    " AND STATUS = 'enabled'"
)


class ServerLoad:
    """What one server does beside, asked over one connection.

    Its methods raise SourceUnavailable, SourceUnfit: the server does not answer, or the account may not ask.

    Args:
        address: the server.
        connection: an open connection to it.
        facts: what it reports about itself.
    """

    def __init__(
        self, address: SourceAddress, connection: pymysql.Connection[Any], facts: ServerFacts
    ) -> None:
        self._address, self._connection, self._facts = address, connection, facts

    def threads_running(self) -> int:
        """Return how many threads the server runs for others."""
        # The thread of this query runs too, and does not count.
        return self._number(_THREADS) - 1

    def replica_lag_s(self) -> int | None:
        """Return how far a replica is behind, see `lag_s`."""
        return lag_s(self._address, self._connection, self._facts)

    def history_list(self) -> int:
        """Return how many transactions' old rows InnoDB keeps, for whoever reads at an older time."""
        return self._number(_MARIADB_HISTORY if self._facts.mariadb else _MYSQL_HISTORY)

    def excess(self, limits: Mapping[str, float]) -> str | None:
        """Return which limit is exceeded, as a sentence; None: none is.

        Args:
            limits: by names of `LIMITS`.
        """
        for name, limit in limits.items():
            found = self.asked(name)
            if found is not None and found > limit:
                return f"{LIMITS[name].says.format(found)}, more than snapshot.{name} ({limit:g})"
        return None

    def asked(self, name: str) -> int | None:
        """Return the value that a limit bounds, or None; an error names the missing right."""
        limit = LIMITS[name]
        try:
            return limit.ask(self)
        except SourceUnfit as error:
            if error.details.get("code") not in ACCESS_CODES:
                raise
            right = limit.right_on_mariadb if self._facts.mariadb else limit.right_on_mysql
            account = account_of(self._address, self._connection)
            raise SourceUnfit(
                error.message, hint=f"GRANT {right} ON *.* TO {account};", shard=self._address.name
            ) from error

    def _number(self, statement: str) -> int:
        rows = query(self._address, self._connection, statement)
        if not rows:
            raise SourceUnfit(
                f"{self._address.title} does not answer {statement!r}.",
                hint=f"On MySQL: SET GLOBAL innodb_monitor_enable = '{_METRIC}'; or remove the limit.",
                shard=self._address.name,
            )
        return rows[0].number("Value")


class Limit(NamedTuple):
    """Something that is limited."""

    #: what is found, as a sentence
    says: str
    ask: Callable[[ServerLoad], int | None]
    #: privileges that the account needs to ask; empty: none
    right_on_mariadb: str = ""
    right_on_mysql: str = ""


#: by names of settings
LIMITS: Final[Mapping[str, Limit]] = {
    "threads_running_max": Limit("{} threads of the server are running", lambda load: load.threads_running()),
    "replica_lag_max_s": Limit(
        "the server is {} s behind its own source",
        lambda load: load.replica_lag_s(),
        "SLAVE MONITOR",
        "REPLICATION CLIENT",
    ),
    "history_list_max": Limit(
        "InnoDB's history list has {} entries", lambda load: load.history_list(), "PROCESS", "PROCESS"
    ),
}
