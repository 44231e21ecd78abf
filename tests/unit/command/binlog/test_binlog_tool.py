"""`canal-group binlog`: what it prints, and how it ends."""

from __future__ import annotations

import json
import re
import struct
from itertools import accumulate

import pytest
from support.binlog.binlog_bytes import File, events_of
from support.binlog.decoding import FIXTURES, with_checksum
from support.binlog.number_files import IN_USE, INT, rows_of
from support.binlog.old_files import transaction

from canal_group.programs.command import cli

MARIADB = FIXTURES.parent / "mariadb-10.11" / "transactions.binlog"


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command line; return its exit status, lines and complaint."""

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["canal-group", "binlog", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capsys.readouterr()
        return ended.value.code, printed.out.splitlines(), printed.err

    return run


def test_json_lines_have_canals_text_and_stable_keys(run):
    status, lines, complaint = run("--json", FIXTURES / "savepoint.binlog", FIXTURES / "gtid_tagged.binlog")
    assert (status, complaint) == (0, "")
    changes = [json.loads(line) for line in lines]
    rows = [change for change in changes if "sql" not in change]
    assert [list(row) for row in rows] == [
        ["file", "pos", "gtid", "schema", "table", "op", "before", "after"]
    ] * 4
    empty = {"d": None, "d2": None, "v": None}
    assert [row["after"] for row in rows] == [{"id": str(n), **empty} for n in (30, 32, 50, 51)]
    assert rows[0]["pos"] == rows[1]["pos"] == 427
    assert rows[2] == {
        "file": "gtid_tagged.binlog",
        "pos": 427,
        "gtid": "e822e9ea-e4db-11f1-9e85-02fc00000001:tagx:1",
        "schema": "fx",
        "table": "j",
        "op": "INSERT",
        "before": None,
        "after": {"id": "50", **empty},
    }
    create = changes[0]
    assert (create["op"], create["table"], create["before"], create["after"]) == ("CREATE", "j", None, None)
    assert create["sql"].startswith("create table j(")


def test_updates_and_deletes_of_all_types(run):
    status, lines, _ = run("--json", FIXTURES / "all_types.binlog")
    rows = [json.loads(line) for line in lines][1:]
    assert status == 0
    assert [(row["op"], row["before"] is None, row["after"] is None) for row in rows] == [
        ("INSERT", True, False),
        ("INSERT", True, False),
        ("UPDATE", False, False),
        ("DELETE", False, True),
    ]
    after = rows[0]["after"]
    assert (after["u8"], after["tm"], after["dbl"]) == (
        "18446744073709551615",
        "-838:59:59.000000",
        "-2.25e300",
    )
    assert (after["en"], after["st"], after["vb"]) == ("ü", "a,d", "ÿ\0ÿ")
    assert rows[2]["after"]["u8"] == "1"


def test_strings_without_a_charset_are_utf8_where_they_are(run, tmp_path):
    path = transaction(File("5.5.62")).write(tmp_path / "mysql-bin.000001")
    status, lines, _ = run("--json", path)
    after = json.loads(lines[0])["after"]
    assert (status, after["@2"], after["@3"], after["@10"]) == (0, "é!", "ab", "ÿþ")


def test_lines_for_people_and_counts(run):
    status, lines, _ = run(MARIADB)
    assert status == 0
    assert lines[0].startswith("transactions.binlog:328  2026-")
    assert lines[0].endswith("0-1-1  1 changes")
    assert '    INSERT app.x  {"id": "2", "v": "q"}' in lines
    assert "16 transactions, 58 events" in lines
    assert "         5 INSERT app.x" in lines
    assert "         1 MARIADB_QUERY_COMPRESSED (165)" in lines
    update = next(line for line in lines if line.startswith("    UPDATE"))
    assert " -> " in update


def test_events_inside_payloads_are_counted_as_mysqlbinlog_shows_them(run):
    """The counts are those of `mysqlbinlog -vv` on the file."""
    status, lines, _ = run(FIXTURES / "txn_compression.binlog")
    assert status == 0
    counts = {
        name: int(count) for line in lines for count, name in re.findall(r"^ +(\d+) ([A-Z_]+) \(\d+\)$", line)
    }
    assert counts == {
        "QUERY": 5,
        "ROTATE": 1,
        "FORMAT_DESCRIPTION": 1,
        "XID": 4,
        "TABLE_MAP": 5,
        "WRITE_ROWS": 3,
        "UPDATE_ROWS": 1,
        "DELETE_ROWS": 1,
        "GTID": 5,
        "PREVIOUS_GTIDS": 1,
        "TRANSACTION_PAYLOAD": 3,
    }
    assert f"5 transactions, {sum(counts.values())} events" in lines


@pytest.mark.parametrize("server", ["", "localhost", "@localhost", "u@", "u@h:port", "u@h:1:2"])
def test_a_server_to_ask_is_named_in_one_way(run, server):
    status, lines, complaint = run("--lookup", server, FIXTURES / "savepoint.binlog")
    assert (status, lines) == (1, [])
    assert "does not name a server. Expected user@host:port." in complaint


def test_a_server_to_ask_that_is_not_there_and_a_password_that_is_not_set(run):
    status, lines, complaint = run("--lookup", "u@127.0.0.1:1", FIXTURES / "savepoint.binlog")
    assert (status, lines) == (3, [])
    assert complaint.startswith("SourceUnavailable: ")
    assert "shard" not in complaint
    assert run("--lookup", "u@h", "--password-env", "NOT_SET_X", FIXTURES / "savepoint.binlog")[0] == 2


def test_a_folder_is_its_binlogs(run, tmp_path):
    for number in (1, 2):
        rows_of(File("5.5.62"), number).write(tmp_path / f"mysql-bin.00000{number}")
    (tmp_path / "ib_logfile0.000001").write_bytes(bytes(100))
    status, lines, _ = run("--json", tmp_path)
    assert (status, [json.loads(line)["after"]["@1"] for line in lines]) == (0, ["1", "2"])


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_corrupt_file_prints_the_rows_before_and_one_sentence(run, tmp_path, options):
    data = bytearray((FIXTURES / "savepoint.binlog").read_bytes())
    data[-60] ^= 1  # in the last transaction's end
    broken = tmp_path / "mysql-bin.000007"
    broken.write_bytes(data)
    whole = FIXTURES / "gtid_tagged.binlog"
    status, lines, complaint = run(*options, whole, broken, whole)
    assert status == 1
    assert sum("INSERT" in line and '"id"' in line for line in lines) == 2
    assert complaint.startswith("CorruptEvent: Checksum")
    assert "mysql-bin.000007:" in complaint
    assert complaint.count("\n") == 1


def test_a_file_that_is_missing_or_no_binlog(run, tmp_path):
    status, lines, complaint = run("--json", tmp_path / "mysql-bin.000001")
    assert (status, lines) == (1, [])
    assert "cannot be opened" in complaint
    assert run()[0] == 2


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_columns_that_images_do_not_say_are_not_printed(run, options):
    _, lines, _ = run(*options, str(FIXTURES / "row_image_minimal.binlog"))
    text = next(line for line in lines if "UPDATE" in line)
    if options:
        row = json.loads(text)
        assert (row["before"], row["after"]) == ({"id": "1"}, {"id": "1", "v": "m"})
    else:
        assert '{"id": "1"} -> {"id": "1", "v": "m"}' in text


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_what_could_not_be_printed_as_it_is_is_said_on_stderr(run, tmp_path, options):
    status, lines, complaint = run(*options, FIXTURES.parent / "mysql-5.5.9" / "all_types.binlog")
    assert (status, complaint) == (0, "3 zero or impossible dates are printed as null.\n")
    assert not any("as null" in line for line in lines)
    assert run(*options, FIXTURES / "savepoint.binlog")[2] == ""
    file = rows_of(File("5.5.62"), 1).add(99, b"of a newer server", flags=0x80)
    _, _, complaint = run(*options, file.write(tmp_path / "mysql-bin.000001"))
    assert complaint == "1 events of unknown types are ignored: their server marks them as ignorable.\n"


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_tail_is_reported_on_stderr_without_failing(run, tmp_path, options):
    data = rows_of(rows_of(File("5.5.62", flags=IN_USE), 1), 2).data
    path = tmp_path / "mysql-bin.000001"
    path.write_bytes(data[:-3])
    status, lines, complaint = run(*options, path)
    assert status == 0
    assert sum('"@1"' in line for line in lines) == 1
    begin = len(data) - len(events_of(data)[-1])
    assert complaint == (
        f"mysql-bin.000001 is marked in use and ends at {len(data) - 3} inside an event: 24 of the 27 bytes "
        f"of XID (16) at {begin}. Its server is still writing it, or crashed. "
        "What is incomplete is left out.\n"
    )


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_length_that_contradicts_the_offset_in_a_file_in_use_fails(run, tmp_path, options):
    data = bytearray(rows_of(rows_of(File("5.5.62", flags=IN_USE), 1), 2).data)
    begin = len(data) - sum(map(len, events_of(data)[-4:]))
    data[begin + 10] ^= 32
    path = tmp_path / "mysql-bin.000001"
    path.write_bytes(data)
    status, lines, complaint = run(*options, path)
    assert status == 1
    assert sum('"@1"' in line for line in lines) == 1
    assert complaint.startswith("CorruptEvent: The event's length of 8")
    assert f"mysql-bin.000001:{begin}" in complaint


ROWS_OF_SEVERAL_CHUNKS = 40_000


def huge(file):
    """Append a transaction that is more than a chunk; its rows are 0 to 39,999."""
    file.query("BEGIN")
    for begin in range(0, ROWS_OF_SEVERAL_CHUNKS, 1000):
        rows = [struct.pack("<i", begin + n) for n in range(1000)]
        file.table_map(INT).insert(INT, rows)
    return file


def test_a_transaction_of_several_chunks_has_one_header(run, tmp_path):
    file = huge(rows_of(File("5.5.62"), -1)).xid()
    path = rows_of(file, -2).write(tmp_path / "mysql-bin.000001")
    status, lines, complaint = run(path)
    assert (status, complaint) == (0, "")
    heads = [line for line in lines if line.startswith("mysql-bin.000001:")]
    assert [line.rpartition("  ")[2] for line in heads] == ["1 changes", "no gtid", "1 changes"]
    first = lines.index(heads[1]) + 1
    rows = [f'    INSERT app.t  {{"@1": "{n}"}}' for n in range(ROWS_OF_SEVERAL_CHUNKS)]
    assert lines[first : first + len(rows)] == rows
    assert lines[first + len(rows)] == f"    {ROWS_OF_SEVERAL_CHUNKS} changes in this transaction"
    assert "3 transactions, 91 events" in lines


def test_a_transaction_that_is_printed_in_part_is_named(run, tmp_path):
    """It is larger than a chunk, and the file, which is in use, ends before its end."""
    file = rows_of(File("5.5.62", flags=IN_USE), -1)
    begin = len(file.data)
    status, lines, complaint = run("--json", huge(file).write(tmp_path / "mysql-bin.000001"))
    assert status == 0
    assert len(lines) > 1
    tail, part = complaint.splitlines()
    assert "ends at" in tail
    assert part == f"The transaction at mysql-bin.000001:{begin} is printed in part: its end was not read."


@pytest.mark.parametrize("end", ["\x85", "\u2028", "\u2029"])
def test_json_lines_hold_no_line_end(run, tmp_path, end):
    file = File("5.5.62").query(f"CREATE TABLE t (id INT) COMMENT 'a{end}b'")
    _, lines, _ = run("--json", file.write(tmp_path / "mysql-bin.000001"))
    (line,) = lines
    assert f"a\\u{ord(end):04x}b" in line
    assert f"a{end}b" in json.loads(line)["sql"]


def test_a_gap_in_a_folders_numbers_is_refused_before_anything_is_printed(run, tmp_path):
    for number in (1, 2, 4):
        rows_of(File("5.5.62"), number).write(tmp_path / f"mysql-bin.00000{number}")
    status, lines, complaint = run("--json", tmp_path)
    assert (status, lines) == (1, [])
    assert complaint.startswith(
        f"UsageError: {tmp_path} lacks the files between mysql-bin.000002 and mysql-bin."
    )
    files = sorted(tmp_path.iterdir())
    assert [json.loads(line)["after"]["@1"] for line in run("--json", *files)[1]] == ["1", "2", "4"]


def test_xa_transactions_that_are_prepared_and_committed_in_two_files(run, tmp_path):
    """Alone, neither file says all: the first how many stand prepared, the second that one commits."""
    data = (FIXTURES / "xa.binlog").read_bytes()
    events = events_of(data)
    begins = list(accumulate(map(len, events), initial=4))
    split = begins.index(837)  # where x1 is committed
    one, two = (tmp_path / f"mysql-bin.00001{number}" for number in (8, 9))
    one.write_bytes(data[:837])
    moved = (each[:13] + bytes(4) + each[17:] for each in events[split:])  # log_pos 0 fits every file
    two.write_bytes(data[:4] + events[0] + b"".join(map(with_checksum, moved)))
    for options in ([], ["--json"]):
        status, lines, complaint = run(*options, one)
        assert status == 0
        assert complaint == "1 XA transactions are left prepared: their rows are printed where they commit.\n"
        assert not any("INSERT" in line for line in lines)
    status, lines, _ = run("--json", two)
    changes = [json.loads(line) for line in lines]
    assert status == 0
    assert [(each["op"], each.get("sql"), (each["after"] or {}).get("id")) for each in changes] == [
        ("STATEMENT", "XA COMMIT X'7831',X'',1", None),
        ("INSERT", None, "21"),
    ]
    _, lines, _ = run("--json", one, two)
    assert [(each["after"] or {}).get("id") for each in map(json.loads, lines)] == [None, "20", "21"]
