"""Hints on refused accounts: what each error of a server says, and the statement that mends it."""

import pytest

from canal_group.binlog.server.access_hint import ACCESS_CODES, access_hint


@pytest.mark.parametrize(
    ("code", "text", "hint"),
    [
        (
            1130,
            "Host '10.0.0.5' is not allowed to connect to this MariaDB server",
            "CREATE USER 'ca''nal'@'10.0.0.5'",
        ),
        (1129, "Host '10.0.0.5' is blocked because of many connection errors", "FLUSH HOSTS"),
        (1045, "Access denied for user 'ca'nal'@'10.0.0.5' (using password: NO)", "No password was sent"),
        (1045, "Access denied for user 'ca'nal'@'10.0.0.5' (using password: YES)", "host matches 10.0.0.5"),
        (
            1698,
            "Access denied for user 'ca'nal'@'localhost'",
            "ALTER USER 'ca''nal'@'localhost' IDENTIFIED BY",
        ),
        (
            1227,
            "Access denied; you need (at least one of) the REPLICATION SLAVE privilege(s) for this operation",
            "GRANT REPLICATION SLAVE ON *.* TO 'ca''nal'@'%';",
        ),
        (
            1227,
            "Access denied; you need (at least one of) the SUPER, BINLOG MONITOR privilege(s) for this",
            "GRANT BINLOG MONITOR ON *.* TO 'ca''nal'@'%';",
        ),
        (
            1142,
            "SELECT command denied to user 'ca'nal'@'h' for table `t`",
            "REFERENCES ON *.* TO 'ca''nal'@'h';",
        ),
        (2059, "Authentication plugin 'x' not configured", "IDENTIFIED WITH caching_sha2_password"),
    ],
)
def test_each_error_has_the_statement_that_mends_it(code, text, hint):
    assert code in ACCESS_CODES
    assert hint in access_hint("ca'nal", code, text)
