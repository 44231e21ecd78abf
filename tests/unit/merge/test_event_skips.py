"""Which event is left out: only the one at which a shard has stopped, on the server that is read, once."""

from dataclasses import replace

import pyarrow as pa
import pytest

from canal_group.merge.errors import CorruptEvent, DefinitionContradicted, UsageError
from canal_group.merge.event_skips import SKIPS_MAX, EventSkips, Stop
from canal_group.merge.rows.canal.parsed import is_parsed
from canal_group.merge.values.gtids.gtid import parse_gtid_set
from canal_group.merge.values.marks.skip_mark import SkipMark
from canal_group.merge.values.marks.snapshot_mark import SnapshotMark
from canal_group.merge.values.position import Position
from canal_group.merge.values.skips.skipped_event import SkippedEvent, Unit, parse_event_offset

TABLES = pa.list_(pa.struct([("table", pa.utf8())]))
FILE, AT = "mysql-bin.000007", 4711


def stop(shard="s1", server="uuid-a", created_s=1_000, offset=AT, part=0, handed_over=0, **more):
    details = {"file": FILE, "offset": offset, "created_s": created_s, "part": part, "server": server}
    error = CorruptEvent("bad", skippable=1, handed_over=handed_over, **details, **more)
    return Stop(shard, error, server, {FILE: created_s})


def past(shard="s1", server="uuid-a", created_s=1_000):
    return Stop(shard, None, server, {FILE: created_s})


def ask(skips, where, offset=AT, *, file=FILE, whole=False):
    return skips.asked(where, file, offset, whole_transaction=whole, by="ops", at_us=5)


def test_the_event_at_which_a_shard_has_stopped_is_left_out():
    skips, event = ask(EventSkips(), stop(part=3))
    assert event == SkippedEvent("s1", "uuid-a", FILE, 1_000, AT, 3, Unit.EVENT, "ops", 5)
    assert EventSkips.from_json(skips.to_json()) == skips
    assert skips.of("s1") == (event,)
    assert skips.of("s2") == ()
    assert EventSkips.from_json(None) == EventSkips()


def test_a_repeated_skip_request_skips_once():
    skips, event = ask(EventSkips(), stop())
    assert ask(skips, stop()) == (skips, event)
    assert ask(skips, past()) == (skips, event)
    assert ask(skips, stop(offset=9_000)) == (skips, event), "it has stopped again, further on"


@pytest.mark.parametrize(
    "where",
    [
        past(server="uuid-b"),
        past(created_s=2_000),
        past(shard="s2"),
        stop(offset=AT + 1, server="uuid-b"),
        Stop("s1", CorruptEvent("rows before", file=FILE, offset=AT, server="uuid-a"), "uuid-b"),
    ],
)
def test_nothing_else_is_left_out(where):
    """Another server or shard, a file of the same name after RESET, another offset, no event at all."""
    skips, _ = ask(EventSkips(), stop())
    with pytest.raises(UsageError) as refused:
        ask(skips, where)
    assert where.shard in refused.value.message


def test_a_file_of_the_same_name_has_events_of_its_own():
    skips, first = ask(EventSkips(), stop())
    for other in (stop(server="uuid-b"), stop(created_s=2_000), stop(shard="s2"), stop(part=1)):
        more, event = ask(skips, other)
        assert more.events == (first, event)


def test_a_refusal_says_where_the_shard_stands():
    with pytest.raises(UsageError, match=f"not stopped at {FILE}:1, but at {FILE}:{AT}"):
        ask(EventSkips(), stop(), 1)
    with pytest.raises(UsageError, match="has not stopped: no event"):
        ask(EventSkips(), past())
    contradicted = DefinitionContradicted(
        "it differs", hint="canal-group schema rebuild", file=FILE, offset=AT
    )
    with pytest.raises(UsageError, match="schema rebuild"):
        ask(EventSkips(), Stop("s1", contradicted))


def test_a_partly_delivered_transaction_is_not_skipped_whole():
    with pytest.raises(UsageError, match="were handed over"):
        ask(EventSkips(), stop(handed_over=1), whole=True)
    assert ask(EventSkips(), stop(handed_over=1))[1].unit is Unit.EVENT
    assert ask(EventSkips(), stop(), whole=True)[1].unit is Unit.TRANSACTION


def test_the_oldest_is_forgotten_beyond_the_bound():
    _, event = ask(EventSkips(), stop())
    full = EventSkips(tuple(replace(event, offset=10_000 + number) for number in range(SKIPS_MAX)))
    skips, latest = ask(full, stop())
    assert skips.events == (*full.events[1:], latest)


@pytest.mark.parametrize(
    "text", ["", ":4", "mysql-bin.000001", "mysql-bin.000001:-4", "a:b", "file:4", "x.1:²"]
)
def test_a_malformed_position_is_refused(text):
    with pytest.raises(UsageError):
        parse_event_offset(text)


def test_an_event_offset_is_read_as_errors_write_it():
    assert parse_event_offset("a:b-bin.000001:4711") == ("a:b-bin.000001", 4711)


def test_a_mark_is_a_comment_with_any_names_in_it():
    mark = SkipMark(
        "s*/1", "u", FILE, 4, 9, Unit.EVENT, "QUERY (2)", "ALTER", "a*/b.c\ud800", "0-1-2", "*/", 1
    )
    sql = mark.to_sql()
    assert sql.count("*/") == 1
    assert sql.isascii()
    assert SkipMark.of_sql(sql) == mark
    assert SkipMark.of_sql("DO 0") is None
    assert SkipMark.of_sql(None) is None


def test_a_mark_of_a_snapshot_says_what_is_complete_and_where():
    position = Position(FILE, 4711, parse_gtid_set("0-1-7"), 5, 6, server="u*/", created_s=7, origin_id=8)
    for table in ("a*/b.c\ud800", ""):
        mark = SnapshotMark("s*/1", "app", table, position)
        sql = mark.to_sql()
        assert sql.count("*/") == 1
        assert sql.isascii()
        assert SnapshotMark.of_sql(sql) == mark
        assert SkipMark.of_sql(sql) is None
    assert SnapshotMark.of_sql(None) is None


def test_canal_delivers_a_mark_although_it_concerns_no_table():
    mark = SkipMark("s1", "u", FILE, 4, 9, Unit.EVENT, "QUERY (2)", "", "", "", "ops", 1).to_sql()
    complete = SnapshotMark("s1", "app", "", Position(FILE, 4)).to_sql()
    texts = [mark, complete, "ANALYZE TABLE t", None]
    changes = pa.table({"sql": texts, "tables": pa.array([[], [], [], None], TABLES)})
    assert is_parsed(changes).to_pylist() == [True, True, False, True]
