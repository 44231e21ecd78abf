"""Events that an operator leaves out: the reader goes on after them, and a mark says what is missing."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest
from support.binlog.binlog_bytes import MAGIC, File, events_of
from support.defaults import chunk_limits
from support.soak import first_quick

from canal_group.binlog.columns.table_lookup import NoLookup
from canal_group.binlog.files.binlog_files import BinlogFiles
from canal_group.binlog.formats.event_types import EventType, type_name
from canal_group.binlog.grammar import transactions
from canal_group.binlog.grammar.lead_in import BEGINS
from canal_group.binlog.grammar.skips import Skips
from canal_group.merge.errors import CorruptEvent, DataError, UnsupportedEvent
from canal_group.merge.values.chunk import TableName
from canal_group.merge.values.header import Flag, gtid_text
from canal_group.merge.values.marks.skip_mark import SkipMark
from canal_group.merge.values.skips.skipped_event import SkippedEvent, Unit

FIXTURES = Path(__file__).parents[3] / "fixtures"
INT, BAD_TYPE = (3, b""), (77, b"")
ONE = [INT]
FILE = "mysql-bin.000001"


class Read:
    """What came of a file, transaction by transaction."""

    def __init__(self, path, skips=(), lookup=None):
        self.error = None
        #: by where the transaction begins: table and values of its rows, and texts of its statements
        self.transactions = {}
        #: the marks, and the transactions that they are in
        self.marks, self.marked = [], []
        self.ends = []
        self.files = BinlogFiles([path], TableName, skips=Skips(skips), lookup=lookup, shard="s1")
        try:
            for chunk in self.files:
                self._take(chunk)
        except DataError as error:
            self.error = error

    def _take(self, chunk):
        rows_by_header = [[] for _ in chunk.headers]
        for table in chunk.tables:
            for row in table.rows.to_pylist():
                rows_by_header[row["_header"]].append(
                    (row["_row"], str(table.name), str(row["after"] or row["before"]))
                )
        for statement in chunk.statements.to_pylist() if chunk.statements is not None else ():
            mark = SkipMark.of_sql(statement["sql"])
            begin = int(chunk.headers["begin_offset"][statement["_header"]])
            if mark is not None:
                assert statement["schema"] == statement["table"] == ""
                assert statement["op"] == "QUERY"
                self.marks.append(mark)
                self.marked.append(begin)
            rows_by_header[statement["_header"]].append(
                (statement["_row"], statement["table"], "mark" if mark else statement["sql"])
            )
        for header, rows in zip(chunk.headers, rows_by_header, strict=True):
            assert header["flags"] & Flag.END
            assert header["rows"] == len(rows)
            gtid = gtid_text(chunk.names[int(header["gtid_source"])], int(header["gtid_number"]))
            texts = [(table, text) for _, table, text in sorted(rows)]
            self.transactions[int(header["begin_offset"])] = (gtid, texts)
            self.ends.append(int(header["end_offset"]))

    def skip(self, unit=Unit.EVENT):
        """Return the event at which it stopped, as an operator leaves it out."""
        details = self.error.details
        assert details["skippable"] == 1
        location = details["file"], details["created_s"], details["offset"], details["part"]
        return SkippedEvent("s1", "", *location, unit, "ops", 1_700_000_000_000_000)

    @property
    def values(self):
        return [text for _, rows in self.transactions.values() for _, text in rows]


def read(tmp_path, data, skips=(), **options):
    path = tmp_path / FILE
    path.write_bytes(data)
    return Read(path, skips, **options)


def row(number):
    return struct.pack("<i", number)


def shown(number):
    return str({"@1": number})


def transaction(file, *numbers):
    file.query("BEGIN").table_map(ONE)
    for number in numbers:
        file.insert(ONE, [row(number)])
    return file.xid()


def test_a_statement_is_left_out_and_the_rest_of_its_transaction_is_not(tmp_path):
    file = transaction(File("5.1.73"), 1)
    file.query("BEGIN").table_map(ONE).insert(ONE, [row(2)])
    begin = len(file.data)
    file.query("INSERT INTO t VALUES (1), ('*/ secret')")
    end = len(file.data)
    file.table_map(ONE).insert(ONE, [row(3)]).xid()
    transaction(file, 4)
    stopped = read(tmp_path, file.data)
    assert isinstance(stopped.error, UnsupportedEvent)
    assert stopped.values == [shown(1)]
    assert (stopped.error.details["offset"], stopped.error.details["event"]) == (begin, "QUERY (2)")
    on = read(tmp_path, file.data, [stopped.skip()])
    assert on.error is None
    assert on.values == [shown(1), shown(2), "mark", shown(3), shown(4)]
    (mark,) = on.marks
    assert mark == SkipMark(
        shard="s1",
        server="",
        file=FILE,
        from_offset=begin,
        to_offset=end,
        unit=Unit.EVENT,
        event="QUERY (2)",
        verb="INSERT",
        table="app.t",
        gtid="",
        by="ops",
        at_us=1_700_000_000_000_000,
    )
    assert "secret" not in mark.to_sql()
    assert on.files.losses.skipped_events == {"QUERY (2)": 1}


def test_the_whole_transaction_is_left_out_on_request(tmp_path):
    """Also what comes before the event, and after it; the transaction keeps its begin and its end."""
    file = transaction(File("5.1.73"), 1)
    begin = len(file.data)
    file.query("BEGIN").table_map(ONE).insert(ONE, [row(2)]).query("INSERT INTO t VALUES (1)")
    file.query("SAVEPOINT `a`").table_map([BAD_TYPE]).insert(ONE, [row(3)]).query("ROLLBACK TO `a`")
    file.xid()
    end = len(file.data)
    transaction(file, 4)
    stopped = read(tmp_path, file.data)
    on = read(tmp_path, file.data, [stopped.skip(Unit.TRANSACTION)])
    assert on.error is None
    assert on.values == [shown(1), "mark", shown(4)]
    assert (on.marked, on.marks[0].unit) == ([begin], Unit.TRANSACTION)
    assert end in on.ends


def test_a_skipped_table_map_skips_only_its_own_rows(tmp_path):
    file = File("5.1.73")
    file.query("BEGIN").table_map([BAD_TYPE]).insert(ONE, [row(1)]).table_map(ONE, number=8)
    file.insert(ONE, [row(2)], number=8).xid()
    transaction(file, 3)
    file.query("BEGIN").table_map([BAD_TYPE]).xid()
    stopped = read(tmp_path, file.data)
    assert stopped.error.details["event"] == "TABLE_MAP (19)"
    on = read(tmp_path, file.data, [stopped.skip()])
    assert on.values == ["mark", shown(2), shown(3)]
    assert (on.marks[0].verb, on.marks[0].table) == ("", "app.t")
    assert on.error.details["event"] == "TABLE_MAP (19)", "the next one is another event"
    assert on.error.details["offset"] > stopped.error.details["offset"]


@pytest.mark.parametrize("unit", Unit)
def test_an_unknown_event_between_transactions_is_a_transaction_of_its_own(tmp_path, unit):
    file = transaction(File("5.1.73"), 1).add(99, b"?")
    transaction(file, 2)
    stopped = read(tmp_path, file.data)
    on = read(tmp_path, file.data, [stopped.skip(unit)])
    assert (on.error, on.values) == (None, [shown(1), "mark", shown(2)])
    assert on.marks[0].event == "unknown type 99"


class Losing(NoLookup):
    """Records what is not known any more."""

    def __init__(self):
        self.lost = []

    def lose(self, query, _file, end):
        self.lost.append((None if query is None else query.sql, end))


def test_only_a_skipped_definition_makes_its_tables_be_looked_up(tmp_path):
    file = File("5.6.1", checksum=True)
    file.query("ALTER TABLE t ADD x INT")
    altered = len(file.data)
    file.query("INSERT INTO t VALUES (1)")
    transaction(file, 1)
    data = flipped(file.data, 1, -1)
    lookup, skips = Losing(), []
    first = read(tmp_path, data, lookup=lookup)
    skips.append(first.skip())
    second = read(tmp_path, data, skips, lookup=lookup)
    skips.append(second.skip())
    lookup.lost.clear()
    on = read(tmp_path, data, skips, lookup=lookup)
    assert (on.error, on.values) == (None, ["mark", "mark", shown(1)])
    assert lookup.lost == [("ALTER TABLE t ADD x INT", altered)]
    assert [mark.verb for mark in on.marks] == ["ALTER", "INSERT"]


def flipped(data, index, at):
    """Return a file with one bit of a byte of one event flipped; its checksum does not fit then."""
    events = events_of(data)
    event = bytearray(events[index])
    event[at] ^= 1
    events[index] = bytes(event)
    return MAGIC + b"".join(events)


@pytest.mark.parametrize(
    "name",
    first_quick(
        2,
        [
            "mariadb-10.11/transactions",
            "mysql-9.7.4/txn_compression",
            "mysql-9.7.4/xa",
            "mysql-9.7.4/gtid_tagged",
            "mysql-9.7.4/savepoint",
        ],
    ),
)
@pytest.mark.parametrize("unit", Unit)
@pytest.mark.parametrize("damaged_at", [-1, -5], ids=["checksum", "content"])
def test_the_reader_skips_any_damaged_event_without_losing_others(tmp_path, name, unit, damaged_at):
    """Each event of real binlogs in turn: only its checksum, or the last byte of what it says."""
    data = (FIXTURES / f"{name}.binlog").read_bytes()
    whole = read(tmp_path, data)
    assert whole.error is None
    events, at = events_of(data), len(MAGIC)
    for index, event in enumerate(events):
        begin, at = at, at + len(event)
        if index == 0 or event[4] == EventType.ROTATE:
            continue
        if begin >= max(whole.transactions):
            break  # what may not have ended where the file ends is not a transaction yet
        damaged = flipped(data, index, damaged_at)
        skips, on = [], read(tmp_path, damaged)
        assert isinstance(on.error, CorruptEvent), index
        assert on.error.details["offset"] == begin
        while on.error is not None:
            assert len(skips) < 3, f"event {index} at {begin} is not got past: {on.error}"
            skips.append(on.skip(unit))
            assert skips.count(skips[-1]) == 1, f"event {index} stops it again: {on.error}"
            on = read(tmp_path, damaged, skips)
        assert [mark.from_offset for mark in on.marks] == [skip.offset for skip in skips]
        assert on.marks[0].event == type_name(event[4])
        if event[4] in BEGINS:
            assert on.marks[0].gtid == "", "a damaged one is not believed"
            assert on.transactions[on.marked[0]][0] == ""
        again = read(tmp_path, damaged, skips)
        assert again.transactions == on.transactions, "the same, whenever it is read"
        # What an XA transaction prepares comes with the next transaction, which commits it.
        after = [offset for offset in whole.transactions if offset > on.marked[0]][:1]
        for where, held in whole.transactions.items():
            if where not in {*on.marked, *after}:
                assert on.transactions[where] == held, (index, where)
        assert not after or after[0] in on.transactions


def test_a_damaged_commit_ends_its_transaction_at_the_next_or_the_end(tmp_path):
    file = File("5.6.1", checksum=True)
    file.query("BEGIN").table_map(ONE).insert(ONE, [row(1)]).query("COMMIT")
    file.add(EventType.ANONYMOUS_GTID, bytes(25)).query("BEGIN").table_map(ONE).insert(ONE, [row(2)])
    file.query("COMMIT").add(EventType.ROTATE, struct.pack("<Q", 4) + b"mysql-bin.000002")
    data = flipped(flipped(file.data, 4, -5), 9, -5)
    first = read(tmp_path, data)
    second = read(tmp_path, data, [first.skip()])
    on = read(tmp_path, data, [first.skip(), second.skip()])
    assert (on.error, on.values) == (None, [shown(1), "mark", shown(2), "mark"])
    assert on.ends == [on.marks[0].to_offset, on.marks[1].to_offset]


def test_a_skip_in_another_file_of_that_name_does_not_apply(tmp_path):
    """Another one is an older one, before RESET, or that of another server."""
    file = File("5.1.73").query("INSERT INTO t VALUES (1)")
    stopped = read(tmp_path, file.data)
    older = replace(stopped.skip(), created_s=stopped.skip().created_s - 1)
    assert read(tmp_path, file.data, [older]).error.details["offset"] == stopped.error.details["offset"]
    assert read(tmp_path, file.data, [replace(older, created_s=0)]).error is None, "it is not known"
    others = Skips.of_server([replace(stopped.skip(), server="uuid")], "")
    assert not others.at(FILE, 0, stopped.error.details["offset"])


def test_the_rest_of_a_transaction_that_its_file_does_not_end_is_left_out(tmp_path):
    """Its first rows were handed over, and the server has rolled it back: no reader knows how to go on."""
    limits = chunk_limits(rows_max=1)
    (tmp_path / FILE).write_bytes(transaction_begun().data)
    (tmp_path / "mysql-bin.000002").write_bytes(transaction(File("5.1.73"), 9).data)
    files = [tmp_path / FILE, tmp_path / "mysql-bin.000002"]
    with pytest.raises(CorruptEvent, match="first rows were handed over") as stopped:
        list(BinlogFiles(files, TableName, limits))
    details = stopped.value.details
    assert (details["skippable"], details["handed_over"]) == (1, 1)
    location = details["file"], details["created_s"], details["offset"], details["part"]
    skip = SkippedEvent("s1", "", *location, Unit.EVENT, "ops", 0)
    chunks = list(BinlogFiles(files, TableName, limits, skips=Skips([skip])))
    (statements,) = (chunk.statements for chunk in chunks if chunk.statements is not None)
    assert SkipMark.of_sql(statements.column("sql")[0].as_py()).from_offset == details["offset"]
    assert sum(int(chunk.headers["rows"].sum()) for chunk in chunks) == 4


def transaction_begun():
    file = File("5.1.73").query("BEGIN").table_map(ONE)
    file.insert(ONE, [row(1)]).insert(ONE, [row(2)])
    return file.add(EventType.ROTATE, struct.pack("<Q", 4) + b"mysql-bin.000002")


def test_a_defect_of_ours_names_its_event_and_is_got_past(tmp_path, monkeypatch):
    file = transaction(File("5.1.73"), 1).query("CREATE TABLE x (a VARCHAR(1))")
    transaction(file, 2)

    def fails(_statement):
        raise RecursionError

    monkeypatch.setattr(transactions, "read_statement", fails)
    stopped = read(tmp_path, file.data)
    assert stopped.error.details["defect"] == "RecursionError"
    on = read(tmp_path, file.data, [stopped.skip()])
    assert (on.error, on.values) == (None, [shown(1), "mark", shown(2)])
