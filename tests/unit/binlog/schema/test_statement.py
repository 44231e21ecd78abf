"""What follows from a statement's server and session, and its title in messages."""

from __future__ import annotations

import pytest

from canal_group.binlog.schema.statement import ServerVersion, SqlMode, Statement


def statement(version="9.7.4", sql="", **session):
    return Statement(sql, "app", ServerVersion.parse(version), **session)


@pytest.mark.parametrize(
    ("version", "explicit"),
    [
        ("10.9.8-MariaDB", False),
        ("10.10.0-MariaDB", True),
        ("10.10.2-MariaDB", True),
        ("10.11.6-MariaDB", True),
        ("11.4.2-MariaDB", True),
        ("5.7.44", False),
        ("8.0.1", False),
        ("8.0.2", True),
        ("8.4.0", True),
        ("9.7.4", True),
    ],
)
def test_timestamps_are_explicit_from_a_version_on(version, explicit):
    assert statement(version).timestamps_are_explicit is explicit
    for setting in (False, True):
        assert statement(version, explicit_defaults_for_timestamp=setting).timestamps_are_explicit is setting


@pytest.mark.parametrize(
    ("version", "says"),
    [
        ("10.5.27-MariaDB", False),
        ("10.6.0-MariaDB", True),
        ("10.11.6-MariaDB", True),
        ("11.4.2-MariaDB", True),
        ("5.7.44", False),
        ("8.0.2", False),
        ("8.0.3", True),
        ("8.4.0", True),
        ("9.7.4", True),
    ],
)
def test_a_server_says_that_a_definition_took_effect_from_a_version_on(version, says):
    assert statement(version).says_effect is says


@pytest.mark.parametrize(
    ("mode", "strict"),
    [
        (0, False),
        (SqlMode.ANSI_QUOTES, False),
        (SqlMode.STRICT_TRANS_TABLES, True),
        (SqlMode.STRICT_ALL_TABLES, True),
    ],
)
def test_either_strict_mode_is_strict(mode, strict):
    assert statement(sql_mode=mode).strict is strict


@pytest.mark.parametrize(
    ("sql", "title"),
    [
        ("drop\n  TABLE\tsecret", "DROP TABLE"),
        ("/* secret */ -- secret\n# secret\ncreate /* gh-ost */ table secret (a int)", "CREATE TABLE"),
        ("CREATE OR REPLACE TEMPORARY TABLE secret (a INT)", "CREATE OR REPLACE TEMPORARY"),
        ("/*!50000 alter table secret add a int */", "ALTER TABLE"),
        ("/*!99999 secret */ INSERT INTO secret VALUES (1)", "INSERT"),
        ("INSERT`secret` VALUES ('secret')", "INSERT"),
        ("MERGE INTO secret", "MERGE"),
        ("/* secret", "a statement"),
        ("'secret'", "a statement"),
        ("s" * 17, "a statement"),
        ("", "a statement"),
    ],
)
def test_the_title_of_a_statement_has_nothing_that_its_author_chose(sql, title):
    assert statement(sql=sql).title == title
