"""Whether a source replicates others, as it answers, and by how much its low watermarks are lowered."""

from __future__ import annotations

import contextlib

import pymysql
import pytest
from support.defaults import address_of

from canal_group.binlog.server.replication import Withheld, replicates, times_found
from canal_group.binlog.server.source import ServerFacts
from canal_group.merge.errors import SourceUnavailable
from canal_group.merge.values.commit_time import OF_THE_SERVER_READ, CommitTimes

MYSQL, MYSQL_5_7, MARIADB = "9.7.4", "5.7.44-log", "10.11.6-MariaDB-log"
DENIED = pymysql.err.OperationalError(1227, "Access denied")
LAG_US = 5_000_000
ORIGIN = CommitTimes("origin", LAG_US)


class Answers:
    """A connection and its cursor: what statements that begin so return, or raise; no row otherwise."""

    def __init__(self, **answers):
        self.answers = {name.replace("_", " "): answer for name, answer in answers.items()}
        self.asked = []

    def bounded(self, _bounds):
        return contextlib.nullcontext()

    def cursor(self, _kind):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        return None

    def execute(self, sql):
        self.asked.append(sql)
        found = [answer for begin, answer in self.answers.items() if sql.startswith(begin)]
        self.rows = found[0] if found else []
        if isinstance(self.rows, Exception):
            raise self.rows

    def fetchall(self):
        return self.rows


def address(times=ORIGIN):
    return address_of("s1", "127.0.0.1", commit_times=times)


def facts(version=MYSQL, **variables):
    return ServerFacts(version, 1, "1", variables)


@pytest.mark.parametrize(
    ("version", "answers", "expected"),
    [
        (MYSQL, {}, False),
        (MYSQL, {"SHOW_REPLICA_STATUS": [{"Source_Host": "db0"}]}, True),
        (MYSQL, {"SHOW_REPLICA_STATUS": DENIED}, None),
        (MYSQL, {"SHOW_GLOBAL": [{"Variable_name": "group_replication_group_name", "Value": "aa"}]}, True),
        (MYSQL, {"SHOW_GLOBAL": [{"Variable_name": "group_replication_group_name", "Value": ""}]}, False),
        (MYSQL_5_7, {"SHOW_SLAVE_STATUS": [{"Master_Host": "db0"}]}, True),
        (MARIADB, {}, False),
        (MARIADB, {"SHOW_ALL_SLAVES": [{"Master_Host": "db0"}]}, True),
        (MARIADB, {"SHOW_ALL_SLAVES": DENIED}, None),
    ],
)
def test_a_source_says_whether_it_replicates(version, answers, expected):
    assert replicates(address(), Answers(**answers), facts(version)) is expected


def test_a_lost_connection_is_not_an_answer():
    with pytest.raises(SourceUnavailable):
        replicates(address(), Answers(SHOW_REPLICA=pymysql.err.OperationalError(2013, "Lost")), facts())


def test_low_watermarks_stay_lowered_until_two_answers_without_replication():
    """What was replicated until shortly before the first of them may not have been read."""
    withheld, server = Withheld(address(), facts()), Answers()
    assert withheld.us == LAG_US
    seen = []
    for rows in ([], [], [{"Source_Host": "db0"}], [], []):
        server.answers["SHOW REPLICA STATUS"] = rows
        withheld.ask(server)
        seen.append(withheld.us)
    assert seen == [LAG_US, 0, LAG_US, LAG_US, 0]


def test_an_account_that_may_not_ask_has_low_watermarks_lowered():
    withheld = Withheld(address(), facts(MARIADB))
    for _ in range(3):
        withheld.ask(Answers(SHOW_ALL_SLAVES=DENIED))
    assert withheld.us == LAG_US


def test_times_of_the_server_itself_need_no_question():
    withheld, server = Withheld(address(OF_THE_SERVER_READ), facts()), Answers()
    withheld.ask(server)
    assert (withheld.us, server.asked) == (0, [])


@pytest.mark.parametrize(
    ("times", "of", "answers", "says", "fix"),
    [
        (OF_THE_SERVER_READ, facts(), {"SHOW_REPLICA": [{}]}, None, ""),
        (OF_THE_SERVER_READ, facts(MYSQL_5_7), {}, None, ""),
        (
            OF_THE_SERVER_READ,
            facts(MYSQL_5_7),
            {"SHOW_SLAVE": [{"a": 1}]},
            "replica, but its binlog",
            "origin",
        ),
        (OF_THE_SERVER_READ, facts(MARIADB), {"SHOW_ALL": DENIED}, None, ""),
        (
            OF_THE_SERVER_READ,
            facts(MARIADB, gtid_slave_pos="0-1-9"),
            {"SHOW_ALL": DENIED},
            "replica, but",
            "origin",
        ),
        (ORIGIN, facts(), {}, "origin: it replicates no server", ""),
        (ORIGIN, facts(), {"SHOW_REPLICA": [{"a": 1}]}, "origin: it is a replica; while it is idle", ""),
        (
            ORIGIN,
            facts(MARIADB),
            {"SHOW_ALL": DENIED},
            "origin: the account may not ask",
            "GRANT SLAVE MONITOR",
        ),
        (
            ORIGIN,
            facts(),
            {"SHOW_REPLICA": DENIED},
            "origin: the account may not",
            "GRANT REPLICATION CLIENT",
        ),
    ],
)
def test_the_check_says_what_the_setting_means(times, of, answers, says, fix):
    found = times_found(address(times), Answers(**answers), of, lambda: "`canal`@`%`")
    assert (found is None) is (says is None)
    if found is not None:
        assert found[0].startswith(says)
        assert fix in found[1]
        assert bool(fix) is bool(found[1])
