"""What an account may do, by SHOW GRANTS."""

from __future__ import annotations

import pytest

from canal_group.binlog.schema.statement import ServerVersion
from canal_group.binlog.server.preflight.grants import read_grant

MARIADB, MYSQL = ServerVersion(True, 10, 11, 6), ServerVersion(False, 8, 4, 0)


@pytest.mark.parametrize("server", [MARIADB, MYSQL])
@pytest.mark.parametrize(
    ("text", "privileges", "everywhere"),
    [
        ("GRANT USAGE ON *.* TO `a`@`%`", {"USAGE"}, True),
        (
            "GRANT SELECT, REPLICATION SLAVE ON *.* TO `a`@`%` IDENTIFIED BY PASSWORD '*0 ON *.*'",
            {"SELECT", "REPLICATION SLAVE"},
            True,
        ),
        ("GRANT ALL PRIVILEGES ON *.* TO 'a'@'%' WITH GRANT OPTION", {"ALL PRIVILEGES"}, True),
        ("GRANT BACKUP_ADMIN,XA_RECOVER_ADMIN ON *.* TO `a`@`%`", {"BACKUP_ADMIN", "XA_RECOVER_ADMIN"}, True),
        ("GRANT SELECT ON `app`.* TO `a`@`%`", {"SELECT"}, False),
        ("GRANT INSERT, SELECT (`id`, `on, x`) ON `app`.`t` TO `a`@`%`", {"INSERT", "SELECT"}, False),
        ("GRANT EXECUTE ON PROCEDURE `app`.`p` TO `a`@`%`", {"EXECUTE"}, False),
        ("GRANT REFERENCES ON `a ON *.* TO b`.* TO `a`@`%`", {"REFERENCES"}, False),
    ],
)
def test_privileges_are_on_one_thing(server, text, privileges, everywhere):
    assert read_grant(text, server) == (privileges, everywhere)


@pytest.mark.parametrize(
    "text",
    [
        "GRANT `reader` TO `a`@`%`",
        "GRANT `SELECT ON *.*`@`%` TO `a`@`%`",
        "REVOKE SELECT ON `mysql`.* FROM `a`@`%`",
        "SET DEFAULT ROLE `reader` FOR `a`@`%`",
        "GRANT SELECT (`id` ON *.* TO `a`@`%`",
        "GRANT",
        "",
    ],
)
def test_a_grant_without_a_privilege_gives_none(text):
    assert read_grant(text, MARIADB) is None
