"""A shard reads members of a MySQL replication group, whichever of them is the primary."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.deadline import await_true
from support.instance.inserted_rows import rows_until
from support.instance.shard_hosts import FAST, Pair

from canal_group.actors.coordination.embedded import EmbeddedZooKeeper
from playground.database.mysql import MySqlServer
from playground.database.server_process import ServerMissingError, free_port
from playground.database.servers import start_all

MEMBERS = 3
#: with which a member that joins reads what it lacks from another one
RECOVERY = "repl@'127.0.0.1'"


class ReplicationGroup:
    """Three servers, of which one at a time takes writes; at first it is the first one."""

    def __init__(self) -> None:
        name, ports = uuid.uuid4(), [free_port() for _ in range(MEMBERS)]
        seeds = ",".join(f"127.0.0.1:{port}" for port in ports)
        options = {
            "group_name": name,
            "group_seeds": seeds,
            "start_on_boot": "OFF",
            "ip_allowlist": "127.0.0.1",
            "recovery_get_public_key": "ON",
            # A member that does not answer leaves the group at once.
            "member_expel_timeout": 0,
        }
        words = [f"--loose-group-replication-{key.replace('_', '-')}={said}" for key, said in options.items()]
        self.members = [
            MySqlServer(
                options=[
                    "--plugin-load-add=group_replication.so",
                    "--report-host=127.0.0.1",
                    *words,
                    f"--loose-group-replication-local-address=127.0.0.1:{port}",
                ]
            )
            for port in ports
        ]

    def form(self) -> None:
        """Start the servers, and let them form a group."""
        start_all(list(self.members))
        for number, member in enumerate(self.members):
            member.execute(
                "SET SESSION sql_log_bin = 0",
                f"CREATE USER {RECOVERY} IDENTIFIED BY '{member.password}'",
                f"GRANT REPLICATION SLAVE, GROUP_REPLICATION_STREAM ON *.* TO {RECOVERY}",
                "RESET BINARY LOGS AND GTIDS",
                f"CHANGE REPLICATION SOURCE TO SOURCE_USER = 'repl', SOURCE_PASSWORD = '{member.password}' "
                "FOR CHANNEL 'group_replication_recovery'",
                f"SET GLOBAL group_replication_bootstrap_group = {'OFF' if number else 'ON'}",
                "START GROUP_REPLICATION",
                "SET GLOBAL group_replication_bootstrap_group = OFF",
            )
            await_true(
                lambda count=number + 1: self._online(self.members[0]) == count, "the member is online"
            )

    def primary(self) -> MySqlServer:
        """Return the member that takes writes, as another one sees it; wait until there is one."""
        found: list[MySqlServer] = []

        def known() -> bool:
            witness = next(member for member in self.members if member.running)
            asked = (
                "SELECT MEMBER_PORT FROM performance_schema.replication_group_members WHERE MEMBER_ROLE = "
            )
            ports = {port for (port,) in witness.execute(f"{asked}'PRIMARY' AND MEMBER_STATE = 'ONLINE'")}
            found[:] = [each for each in self.members if each.running and each.port in ports]
            return len(found) == 1 and found[0].execute("SELECT @@super_read_only") == ((0,),)

        await_true(known, "a primary")
        return found[0]

    @staticmethod
    def _online(witness: MySqlServer) -> int:
        asked = "SELECT 1 FROM performance_schema.replication_group_members WHERE MEMBER_STATE = 'ONLINE'"
        return len(witness.execute(asked))


@pytest.fixture
def group() -> Iterator[ReplicationGroup]:
    found = ReplicationGroup()
    try:
        found.form()
        yield found
    except ServerMissingError as error:
        pytest.skip(str(error))
    finally:
        for member in found.members:
            member.close()


@pytest.mark.soak
def test_the_primary_is_lost_and_another_one_is_appointed(
    one_ray: None, one_zookeeper: EmbeddedZooKeeper, group: ReplicationGroup, tmp_path: Path
) -> None:
    """1. The primary is read, and killed. 2. Another member is. 3. The group gets a primary by command."""
    first, second, _ = group.members
    shop = Pair([first], one_zookeeper.hosts, tmp_path)
    with (
        shop.serve(shards=[shop.hosts(group.members)], reader=FAST) as instance,
        shop.connect(instance) as consumer,
    ):
        first.execute(*(f"INSERT INTO shop_0.orders VALUES ({number}, 'x', 1)" for number in range(5)))
        assert [row["id"] for row in rows_until(consumer, 5)] == list("01234")
        first.kill()
        primary = group.primary()
        primary.execute(*(f"INSERT INTO shop_0.orders VALUES ({number}, 'y', 1)" for number in range(5, 8)))
        assert [row["id"] for row in rows_until(consumer, 3)] == list("567")
        failover = consumer.status()["shards"][0]["failover"]
        assert failover["last"]["to"] == f"127.0.0.1:{second.port}"
        assert failover["continued"] == {"by": "gtid", "dropped": 0, "possibly_repeated": 0}
        (other,) = [each for each in group.members if each.running and each is not primary]
        ((appointed,),) = other.execute("SELECT @@server_uuid")
        primary.execute(f"SELECT group_replication_set_as_primary('{appointed}')")
        assert group.primary() is other
        other.execute(*(f"INSERT INTO shop_0.orders VALUES ({number}, 'z', 1)" for number in range(8, 10)))
        assert [row["id"] for row in rows_until(consumer, 2)] == list("89")
        assert consumer.status()["shards"][0]["failover"]["switches"] == 1, (
            "the binlog of any member has it all"
        )
