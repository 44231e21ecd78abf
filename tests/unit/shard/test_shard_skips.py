"""A shard that has stopped is told by a poll, or when it is opened, what to leave out."""

import time

import pytest
from support.binlog.binlog_bytes import File
from support.defaults import files_source, ring_of, shard_wiring

from canal_group.actors.shard.shard import Shard
from canal_group.actors.store.rows import Selection
from canal_group.actors.transport.row_ticket import RowTicket
from canal_group.binlog.formats.events import Query
from canal_group.binlog.schema.statement import ServerVersion
from canal_group.binlog.server.definitions.lost import lost
from canal_group.conf.stream_settings import FilterSettings
from canal_group.merge.event_skips import EventSkips, Stop
from canal_group.merge.values.chunk import TableName
from canal_group.merge.values.marks.skip_mark import SkipMark

DEADLINE_S = 20.0
TERM = (1, 1)
INT = (3, b"")


@pytest.fixture
def shard(tmp_path):
    made = []

    def make(file, **options):
        (tmp_path / "mysql-bin.000001").write_bytes(file.data)
        wiring = shard_wiring(
            files_source("s 1", str(tmp_path)),
            filter=FilterSettings(**options),
            store=ring_of("items", 1 << 10),
        )
        made.append(Shard(wiring))
        return made[-1]

    yield make
    for each in made:
        each.close(1 << 40)


def transaction(file, number):
    return file.query("BEGIN").table_map([INT]).insert([INT], [number.to_bytes(4, "little")]).xid()


def stopped(shard):
    """Return why it has stopped."""
    deadline_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline_s:
        report = shard.poll(*TERM, 100, 0.1)
        if report.error is not None:
            return report.error
    raise AssertionError("it does not stop")


def skips_of(error, offset=None):
    at = error.details["file"], error.details["offset"] if offset is None else offset
    skips, _ = EventSkips().asked(Stop("s 1", error), *at, whole_transaction=False, by="ops", at_us=1)
    return skips.of("s 1")


def rows_after(shard, skips):
    """Return how many rows each header announces that comes once the shard knows what to leave out."""
    rows, deadline_s = [], time.monotonic() + DEADLINE_S
    while not rows and time.monotonic() < deadline_s:
        report = shard.poll(*TERM, 100, 0.1, -1, skips)
        skips = None
        rows += [] if report.run is None else report.run.headers["rows"].tolist()
    return rows


def test_a_poll_takes_it_past_its_event_and_the_mark_passes_every_filter(shard):
    file = transaction(File("5.1.73"), 1).query("INSERT INTO t VALUES (2)")
    one = shard(transaction(file, 3))
    begin = one.open(*TERM, None)
    error = stopped(one)
    at = f"{error.details['file']}:{error.details['offset']}"
    assert str(error).endswith(f"canal-group shard skip-event -d shop 's 1' --at {at}")
    asked_s = time.monotonic()
    assert rows_after(one, skips_of(error)) == [1, 1]
    assert time.monotonic() - asked_s < 4, "not only with the next try, after five seconds"
    selection = Selection(table_filter=r"app\.none")
    (payload,) = one._rows(RowTicket(*TERM, 0, 3, selection))
    (sql,) = payload.batches[0].column("sql").to_pylist()
    assert payload.name is None
    assert SkipMark.of_sql(sql).table == "app.t"
    assert one.status()["counters"]["skipped_events"] == {"QUERY (2)": 1}
    assert not list(one._rows(RowTicket(*TERM, 0, 3, Selection(TableName("app", "none")))))
    assert begin.offset == 4


def test_it_knows_from_the_beginning_what_it_is_told_when_it_is_opened(shard):
    file = transaction(File("5.1.73").query("INSERT INTO t VALUES (2)"), 3)
    first = shard(file)
    first.open(*TERM, None)
    skips = skips_of(stopped(first))
    second = shard(file)
    second.open(*TERM, None, None, skips)
    assert rows_after(second, None) == [1, 1]


def test_rows_the_rules_cannot_process_are_skipped_with_their_transaction(shard):
    file = transaction(transaction(File("5.1.73"), 1), 2)
    begin = len(file.data)
    file.query("BEGIN").table_map([INT], table="other").insert([INT], [bytes(4)], number=7).xid()
    rule = {"match": r"app\.other", "rename": [{"column": "missing", "to": "x"}]}
    one = shard(transaction(file, 3), tables=[rule])
    one.open(*TERM, None)
    error = stopped(one)
    assert "missing" in error.message
    assert (error.details["offset"], error.details["handed_over"]) == (begin, 0)
    assert rows_after(one, skips_of(error)) == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("ALTER TABLE t ADD x INT", "`app`.`t`"),
        ("RENAME TABLE t TO `a``b`, u TO v", "`app`.`a``b`, `app`.`t`, `app`.`u`, `app`.`v`"),
        ("DROP DATABASE app", ""),
        ("ALTER TABLE t WHATEVER THIS", "`app`.`t`"),
        ("GRANT ALL ON *.* TO x", None),
        ("INSERT INTO t VALUES (1)", None),
    ],
)
def test_what_a_statement_that_is_left_out_may_have_defined_is_not_known(sql, names):
    """Its text is not kept."""
    tables = lost(Query("app", sql), ServerVersion(False, 8, 0))
    assert (tables and tables.sql) == names
    assert tables is None or tables.left_out
    assert lost(None, ServerVersion(True, 10, 6)).sql == ""
