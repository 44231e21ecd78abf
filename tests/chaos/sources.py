"""A source of the world: one shard's address, the server behind it, and its replica."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from canal_group.merge.values.gtids.gtid import parse_gtid_set
from canal_group.programs.demo.tables import ORDERS, schema_name
from chaos.clocks import S_US, Clock
from chaos.lateness import Dial
from chaos.proxy import Proxy
from playground.database.mariadb import MariaDbServer
from playground.database.mysql import MySqlServer
from playground.database.server_process import (
    CANAL_PASSWORD,
    CANAL_USER,
    DatabaseServer,
    copy_sparse,
)

#: in addition to the options of a demo's servers: a replica logs what it replicates, and replicates only when
#: it is told to
_PAIRED: Final = ("--log-slave-updates", "--skip-slave-start")
#: difference of a replica's `server_id` from its source's
REPLICA: Final = 100
_POLL_S: Final = 0.05
#: transactions that the end of a binlog has, at most, when it is lost
_LOST_MAX: Final = 5
_DUMPS: Final = (
    "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%' AND TIME >= 2"
)


class SourceError(RuntimeError):
    """A source did not do what was requested."""


class ClockedMariaDb(MariaDbServer):
    """A MariaDB with its own clock."""

    resolution_us = S_US

    def __init__(self, clock: Clock, **options: Any) -> None:
        super().__init__(**options)
        self.clock = clock

    def program(self) -> list[str]:
        """Return the command of the server's program under its clock."""
        program, *options = super().program()
        return [*self.clock.command(program), *options]


class ClockedMySql(MySqlServer):
    """A MySQL with its own clock."""

    resolution_us = 1

    def __init__(self, clock: Clock, **options: Any) -> None:
        super().__init__(**options)
        self.clock = clock

    def program(self) -> list[str]:
        """Return the command of the server's program under its clock."""
        program, *options = super().program()
        return [*self.clock.command(program), *options]


class Source:
    """One shard's source.

    Args:
        index: of the shard.
        name: of the shard.
        make: makes of server, MariaDB or MySQL.
        folder: of the clocks' files.
        library: of the clocks.
        paired: whether it has a replica, which only a MariaDB has here.
    """

    def __init__(
        self,
        index: int,
        name: str,
        make: type[ClockedMariaDb | ClockedMySql],
        folder: Path,
        library: Path,
        *,
        paired: bool,
    ) -> None:
        self.index, self.name = index, name
        ids = [101 + index] + ([101 + index + REPLICA] if paired else [])
        options = _PAIRED if paired else ()
        clocks = [Clock(folder / f"clock-{number}", library) for number in ids]
        self._servers: list[ClockedMariaDb | ClockedMySql] = [
            make(clock, server_id=number, options=options) for number, clock in zip(ids, clocks, strict=True)
        ]
        self.proxy = Proxy("127.0.0.1:0")
        self._stand_before(self._servers[0])

    @property
    def server(self) -> ClockedMariaDb | ClockedMySql:
        """The server that answers at the shard's address, and is written to."""
        return self._servers[0]

    @property
    def identity(self) -> str:
        """Its server's identity in an archive."""
        return identity_of(self.server)

    @property
    def binlogs(self) -> dict[str, Path]:
        """Where its servers have their binlog files, by identity."""
        return {identity_of(server): Path(server.folder) / "data" for server in self._servers}

    @property
    def servers(self) -> list[DatabaseServer]:
        """All servers, the serving one first."""
        return list(self._servers)

    @property
    def paired(self) -> bool:
        """Whether it has a replica."""
        return len(self._servers) > 1

    @property
    def dials(self) -> dict[int, Dial]:
        """The known settings of its servers' clocks, by `server_id`."""
        return {
            server.server_id: Dial(server.resolution_us, tuple(server.clock.settings))
            for server in self._servers
        }

    def replicate(self) -> None:
        """Make the running replica follow the server, from the replica's last transaction on."""
        _, replica = self._servers
        replica.execute(
            "STOP SLAVE",
            f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={self.server.port},"
            f" MASTER_USER='{CANAL_USER}', MASTER_PASSWORD='{CANAL_PASSWORD}',"
            " MASTER_CONNECT_RETRY=1, MASTER_USE_GTID=current_pos",
            "START SLAVE",
        )

    def fail_over(self, within_s: float) -> Callable[[], None]:
        """Fail over to the replica once it has everything; return a callable that brings the old server back.

        No writer may run meanwhile.

        Raises:
            SourceError: the replica does not catch up.
        """
        old, new = self._servers
        self.await_replica(within_s)
        new.execute("STOP SLAVE", "RESET SLAVE ALL")
        # Readers lose their connections when the old server dies, and then find the new one.
        self._servers = [new, old]
        self._stand_before(new)
        old.kill()
        self.proxy.drop()

        def back() -> None:
            old.start()
            self.replicate()

        return back

    def await_replica(self, within_s: float) -> None:
        """Wait until the replica has everything that the server has.

        Raises:
            SourceError: it does not catch up in time.
        """
        server, replica = self._servers
        ((wanted,),) = server.execute("SELECT @@GLOBAL.gtid_binlog_pos")
        deadline_s = time.monotonic() + within_s
        while True:
            ((held,),) = replica.execute("SELECT @@GLOBAL.gtid_binlog_pos")
            if parse_gtid_set(str(held or "")).contains(parse_gtid_set(str(wanted or ""))):
                return
            if time.monotonic() > deadline_s:
                state = replica.execute("SHOW SLAVE STATUS")
                raise SourceError(f"The replica of {self.name} has {held} instead of {wanted}: {state}")
            time.sleep(_POLL_S)

    def rotate(self) -> str:
        """Begin a new binlog file and return its name."""
        self.server.execute("FLUSH BINARY LOGS")
        return str(self.server.execute("SHOW BINARY LOGS")[-1][0])

    def purge(self, to: str) -> int:
        """Remove the binlog files before one; return how many were removed."""
        before = len(self.server.execute("SHOW BINARY LOGS"))
        self.server.execute(f"PURGE BINARY LOGS TO '{to}'")
        return before - len(self.server.execute("SHOW BINARY LOGS"))

    def lose_end(self) -> int:
        """Lose the end of the binlog, as in a power loss, and write other rows under its numbers.

        No writer may run until `regain_end`, and no replica.

        Returns:
            How many transactions were lost; 0: the last file has none.
        """
        file = str(self.server.execute("SHOW BINARY LOGS")[-1][0])
        events = self.server.execute(f"SHOW BINLOG EVENTS IN '{file}'")
        begins = [int(each[1]) for each in events if str(each[2]) == "Gtid"][-_LOST_MAX:]
        if not begins:
            return 0
        self.server.kill()
        data = self.server.folder / "data"
        copy_sparse(data, self._kept)
        os.truncate(data / file, begins[0])
        self.server.start()
        table = f"{schema_name(self.index)}.{ORDERS.source(self.index)}"
        again = f"UPDATE {table} SET written_us = written_us + 1 ORDER BY id LIMIT 1"
        self.server.execute(*[again] * (len(begins) + 1))
        return len(begins)

    def is_followed(self) -> bool:
        """Return whether somebody has been reading the server's binlog for two seconds."""
        ((dumps,),) = self.server.execute(_DUMPS)
        return bool(dumps)

    def regain_end(self) -> None:
        """Undo `lose_end`, and what was written since."""
        self.server.kill()
        data = self.server.folder / "data"
        shutil.rmtree(data)
        self._kept.rename(data)
        self.server.start()

    @property
    def _kept(self) -> Path:
        return self.server.folder / "kept"

    def close(self) -> None:
        """End its servers."""
        self.proxy.close()
        for server in self._servers:
            server.close()

    def _stand_before(self, server: DatabaseServer) -> None:
        self.proxy.retarget(f"127.0.0.1:{server.port}")


def identity_of(server: DatabaseServer) -> str:
    """Return the identity of a server in an archive: MySQL's uuid, or MariaDB's number."""
    variable = "server_uuid" if isinstance(server, MySqlServer) else "server_id"
    return str(server.execute(f"SELECT @@{variable}")[0][0])
