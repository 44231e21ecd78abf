"""Pages of snapshots on real servers: every key is read once, by its index, at a point that is proven."""

from __future__ import annotations

import pytest
from support.sources.recorder import await_rows, reading
from support.sources.snapshot_walk import Copy, Walk
from support.sources.stall import Stall, run_stalled

from canal_group.binlog.columns.columns import Losses
from canal_group.binlog.server.starts.latest import latest_position
from canal_group.binlog.snapshot.page_reader import PageReader
from canal_group.binlog.snapshot.page_size import PageSize
from canal_group.binlog.snapshot.selected_table import SelectedTable
from canal_group.binlog.snapshot.table_pages import PageSelect, TablePages
from canal_group.merge.snapshot.cursor import KeyRange
from canal_group.merge.snapshot.key import key_of_json
from canal_group.merge.snapshot.point import LogOffset, Point
from canal_group.merge.snapshot.table_key import TableKey
from canal_group.merge.values.chunk import TableName

#: an index is read at most so often as rows are returned, and some times for each page
READS_A_ROW, READS_A_PAGE = 2, 12

WORDS = ["", "a", "A1", "b", "Zoë", "zulu", "É", "e", "ñ", "日本", "𝄞", "ß", "_", "~", "0", "10", "9"]
BYTES = [
    b"",
    b"\0",
    b"\0\0",
    b"'",
    b"''",
    b",",
    b"a,'b",
    b"\\",
    b"\xff",
    b"\xff\xff",
    b"\xc3",
    b"%_",
    b'"',
    b"`",
]
UUIDS = [f"{n * 2654435761 % 2**32:08x}-0000-4000-8000-{n:012x}" for n in range(40)]
NUMBERS = [f"{n}" for n in range(40)]


def quoted(values):
    return [f"'{value}'" for value in values]


def hexed(values):
    return [f"X'{value.hex()}'" for value in values]


#: name of the case -> columns, primary key, values of the key
CASES = {
    "composite_min_group": ("a INT, b INT", "a, b", [f"{1 + (n >= 40)}, {n}" for n in range(50)]),
    "one_prefix": ("a INT, b BIGINT", "a, b", [f"7, {n * n}" for n in range(60)]),
    "ci_keys_general": (
        "k VARCHAR(20) COLLATE utf8mb4_general_ci",
        "k",
        quoted([*WORDS[:4], "c", "zz", "é", "x y"]),
    ),
    "ci_keys_bin": ("k VARCHAR(20) COLLATE utf8mb4_bin", "k", quoted(WORDS)),
    "ci_keys_uuid_text": ("k CHAR(36) CHARACTER SET ascii", "k", quoted(UUIDS)),
    "pad_space_keys": (
        "k VARCHAR(20) COLLATE utf8mb4_general_ci",
        "k",
        quoted(["a ", "b", "b x  ", "c    ", "c\t", "d"]),
    ),
    "enum_key": ("k ENUM('z', 'm', 'a', 'q')", "k", quoted("zmaq")),
    "enum_in_a_composite_key": (
        "k ENUM('z', 'm', 'a'), n INT",
        "k, n",
        [f"'{w}', {n}" for w in "zma" for n in range(9)],
    ),
    "float_key": ("k FLOAT", "k", [str(5592400 + n / 2) for n in range(40)] + ["-1.5e-30", "0", "3.1e38"]),
    "double_key": ("k DOUBLE", "k", ["-1e300", "0.1", "0.30000000000000004", "1e-300", *NUMBERS]),
    "unsigned_bigint_key": (
        "k BIGINT UNSIGNED",
        "k",
        [str(2**64 - 1 - n * 2**59) for n in range(32)] + ["0", "1"],
    ),
    "key_with_comma_quote_nul_0xff": ("k VARBINARY(20)", "k", hexed(BYTES)),
    "key_with_comma_quote_latin1": (
        "k VARCHAR(20) CHARACTER SET latin1",
        "k",
        hexed([b"a,'b", b"\xff", b"\xe9", b"'", b"z"]),
    ),
    "timestamp_key_in_DST_fold": (
        "k TIMESTAMP(6)",
        "k",
        [f"'2026-10-25 0{h}:{m:02}:00.00000{m % 10}'" for h in range(3) for m in range(0, 60, 7)],
    ),
    "datetime_key": (
        "k DATETIME(3)",
        "k",
        ["'0000-00-00'", "'1000-01-01'", *(f"'2026-{m:02}-11 10:00:00.125'" for m in range(1, 13))],
    ),
    "time_key": ("k TIME(6)", "k", ["'-838:59:59'", "'838:59:59'", *(f"'0{n}:00:00.5'" for n in range(10))]),
    "bit_year_decimal65_binary_keys_bit": ("k BIT(40)", "k", [str(n * 2**34 + n) for n in range(40)]),
    "bit_year_decimal65_binary_keys_year": ("k YEAR", "k", ["0", *(str(1901 + n * 5) for n in range(50))]),
    "bit_year_decimal65_binary_keys_decimal65": (
        "k DECIMAL(65, 30)",
        "k",
        [f"{n - 20}{'9' * 20}.{n:030}" for n in range(40) if n != 20],
    ),
    "bit_year_decimal65_binary_keys_binary": (
        "k BINARY(4)",
        "k",
        hexed([bytes([n * 6, 0, 255 - n, 0]) for n in range(40)]),
    ),
    "sparse_keys": ("k BIGINT", "k", [str(n) for n in range(1, 11)] + [str(2**60 + n) for n in range(30)]),
    "midpoint_not_in_charset": (
        "k VARCHAR(9) COLLATE utf8mb4_bin",
        "k",
        quoted(["\U0001f600", "\U0001f601x", "日", "本", "é", "ù", "ü"]),
    ),
}
#: that need MySQL, or MariaDB
MYSQL_CASES = {
    "ci_keys_0900": ("k VARCHAR(20) COLLATE utf8mb4_0900_ai_ci", "k", quoted(["a", "Á1", "b", "z", "Ω", "ñ"]))
}
MARIADB_CASES = {
    "uuid_type_key": ("k UUID", "k", quoted(UUIDS)),
    "inet6_key": ("k INET6", "k", quoted(f"fe80::{n:x}" for n in range(30))),
}


@pytest.fixture
def address(server, source_address):
    """The server, as an account that may SELECT."""
    return source_address(server, user="root", password=server.password)


def create(server, table, columns, key, values, options=""):
    server.execute(
        "SET SESSION sql_mode = '', time_zone = '+00:00'",
        f"CREATE TABLE app.{table} ({columns}, v INT DEFAULT 1, PRIMARY KEY ({key})) {options}",
        f"INSERT INTO app.{table} ({key}) VALUES " + ", ".join(f"({value})" for value in values),
    )


def created(server):
    """Create the table of each case, and yield its name and the values of its key."""
    cases = {**CASES, **(MYSQL_CASES if server.engine == "mysql" else MARIADB_CASES)}
    for name, (columns, key, values) in cases.items():
        create(server, name, columns, key, values)
        yield name, values


def all_keys(walk):
    return walk.select(where="", order=walk.order, limit=None).rows


def check(walk, ranges, count):
    """Read ranges by pages; every key is read once, and the index is read for them alone."""
    expected, before = all_keys(walk), walk.reads()
    found = walk.keys(ranges)
    reads = walk.reads() - before
    assert len(expected) == count
    assert sorted(found) == sorted(expected)
    assert len(ranges) > 1 or found == expected
    assert reads <= READS_A_ROW * count + READS_A_PAGE * walk.page_count


def test_every_key_of_any_type_is_read_once(server, address):
    for name, values in created(server):
        with Walk(address, name, page_rows=3) as walk:
            for options in ({"rows_min": 10**9}, {"rows_min": 2}):
                walk.page_count = 0
                try:
                    check(walk, walk.ranges(**options), len(values))
                except AssertionError as error:
                    raise AssertionError(f"{name} {options}: {error}") from error


@pytest.mark.parametrize(
    "case", ["sparse_keys", "one_prefix", "ci_keys_uuid_text", "bit_year_decimal65_binary_keys_binary"]
)
def test_a_table_is_divided_at_its_own_keys(server, address, case):
    columns, key, values = CASES[case]
    create(server, "t", columns, key, values)
    with Walk(address) as walk:
        ranges = walk.ranges(rows_min=4)
        bounds = [each.until for each in ranges if each.until is not None]
        assert 2 < len(ranges) <= 16
        assert set(bounds) <= set(all_keys(walk))


def test_ranges_are_about_as_large_as_each_other(server, address):
    """Though a server doubles what it guesses, and says of none that it has more than half of the table."""
    count = 40_000
    create(server, "t", "k BIGINT, w CHAR(100)", "k", ["1"])
    for _ in range(16):
        server.execute("INSERT INTO app.t (k) SELECT k + (SELECT MAX(k) FROM app.t) FROM app.t")
    server.execute(f"DELETE FROM app.t WHERE k > {count}", "ANALYZE TABLE app.t")
    with Walk(address) as walk:
        ranges = walk.ranges(rows_min=500)
        counts = [
            server.execute(f"SELECT COUNT(*) FROM app.t WHERE {walk.order.within(each)}")[0][0]
            for each in ranges
        ]
    assert (sum(counts), len(ranges)) == (count, 16)
    assert max(counts) < 3 * count / len(ranges), counts


def test_row_constructor_scan(server, address):
    create(
        server,
        "t",
        "a INT, b INT, c INT",
        "a, b, c",
        [f"{n // 400}, {n // 20 % 20}, {n % 20}" for n in range(2_000)],
    )
    with Walk(address, page_rows=100) as walk:
        check(walk, walk.ranges(rows_min=200), 2_000)


def test_stats_stale(server, address):
    options = "STATS_PERSISTENT = 1 STATS_AUTO_RECALC = 0"
    create(server, "t", "k BIGINT", "k", range(3_000), options)
    # The statistics are those of the empty table from here on.
    server.execute("FLUSH TABLES app.t")
    if server.engine == "mysql":
        shown = "SELECT table_rows FROM information_schema.tables WHERE table_schema = 'app'"
        assert server.execute(shown) == ((0,),)
    with Walk(address, page_rows=200) as walk:
        check(walk, walk.ranges(rows_min=100), 3_000)


def test_hot_tail(server, address):
    create(server, "t", "k BIGINT", "k", range(100))
    with Walk(address, page_rows=20) as walk:
        ranges = walk.ranges(rows_min=10)
        server.execute("INSERT INTO app.t (k) VALUES " + ", ".join(f"({n})" for n in range(100, 1_000)))
        check(walk, ranges, 1_000)


def test_nullable_unique_and_no_key(server, address):
    server.execute(
        "CREATE TABLE app.a (k INT UNIQUE, v INT)",
        "CREATE TABLE app.b (v INT)",
        "CREATE TABLE app.c (k SET('x', 'y') PRIMARY KEY)",
        "CREATE TABLE app.d (v INT, k INT NOT NULL, UNIQUE KEY by_k (k))",
    )
    orders = {}
    for table in "abcd":
        with Walk(address, table) as walk:
            orders[table] = walk.order
    assert [table for table, order in orders.items() if order is not None] == ["d"]
    assert (orders["d"].index, orders["d"].names) == ("by_k", ("k",))


def test_pages_of_a_page_reader_have_the_keys_of_any_type(server, address):
    for name, values in created(server):
        with Walk(address, name, page_rows=5) as walk:
            expected = all_keys(walk)
            reader = PageReader(address, walk.connection, Losses())
            select = PageSelect(reader, SelectedTable.of(walk.definition, TableName("app", name)))
            pages = TablePages(select, walk.points, walk.order, PageSize(5, 5), lambda: 0.0)
            found, after = [], None
            while True:
                page = pages.read(KeyRange(after, None))
                found.append(page.selected.rows)
                after = page.last
                if after is None:
                    break
                assert after == page.selected.last
            rows = [row for each in found for row in each.to_pylist()]
            assert len(rows) == len(values) == len(expected), name
            assert key_of_json(list(expected[0])) == expected[0], name
            again = TableKey(
                walk.order.names, tuple(found[0].schema.field(each).type for each in walk.order.names)
            )
            columns = [found[0].column(each) for each in walk.order.names]
            keys = again.of(columns, len(found[0]))
            ends = {keys[0]: 0, keys[-1]: len(keys) - 1}
            assert again.among(columns, ends.keys()) == ends, name
            by_key = pages.read([again.for_server(each) for each in keys])
            assert by_key.selected.rows.to_pylist() == found[0].to_pylist(), name


def test_a_page_of_single_keys(server, address):
    create(server, "t", "a INT, b INT", "a, b", [f"{n // 5}, {n}" for n in range(50)])
    with Walk(address) as walk:
        page = walk.pages.read((("2", "11"), ("9", "47"), ("9", "3")))
        assert page.selected.rows == [("2", "11"), ("9", "47")]
        assert page.last is None


def test_a_point_is_where_the_binlog_is(server, address):
    create(server, "t", "k INT", "k", range(5))
    with Walk(address) as walk:
        page = walk.pages.read(KeyRange())
        latest = latest_position(address, walk.connection, walk.facts)
        assert page.point.high == LogOffset(latest.file, latest.offset)
        assert page.point.saw_all_before(latest)
        assert (page.point.low == page.point.high) == (server.engine == "mariadb")
        with walk.points.page() as during:
            server.execute("INSERT INTO app.t (k) VALUES (7)")
            after = latest_position(address, walk.connection, walk.facts)
        assert not during.point.saw_all_before(after)


def test_nothing_is_locked_flushed_or_written(server, address):
    create(server, "t", "k INT", "k", range(30))
    with Walk(address) as walk:
        ranges = walk.ranges(rows_min=4)
        server.execute("SET GLOBAL log_output = 'TABLE', GLOBAL general_log = ON")
        try:
            walk.keys(ranges)
        finally:
            server.execute("SET GLOBAL general_log = OFF")
        ((thread,),) = [row.values() for row in walk.query("SELECT CONNECTION_ID() AS id")]
    rows = server.execute(f"SELECT argument FROM mysql.general_log WHERE thread_id = {thread}")
    said = [bytes(row[0]).decode() if isinstance(row[0], bytes) else row[0] for row in rows]
    verbs = {text.split()[0].upper() for text in said if text}
    assert verbs == {"SELECT", "START", "ROLLBACK", "SHOW"}
    assert not any("FOR UPDATE" in text or "LOCK IN" in text for text in said)


# ---- semi_sync_stall ---------------------------------------------------------------------------------------


@pytest.fixture
def stalled(server):
    with Stall(server):
        yield server


@pytest.mark.parametrize("base_inside", [False, True])
def test_semi_sync_stall(stalled, address, base_inside):
    copy, first = run_stalled(stalled, address, base_inside=base_inside)
    assert first == {1: "old"}
    assert copy.rows == {1: "new"}
    assert copy.snapshot.ended


def test_semi_sync_stall_by_what_was_written(stalled, address):
    """The low mark cannot be what is written: then the update is lost."""

    def written(point):
        return Point(point.server, point.high, point.high)

    if stalled.engine == "mariadb":
        pytest.skip("a snapshot of MariaDB says its own point")
    copy, _ = run_stalled(stalled, address, base_inside=False, point_of=written)
    assert copy.rows == {1: "old"}


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_prepared_xa_at_base(server, address, end):
    # The rows are looked for in the whole file, where tables of other tests may be gone.
    server.execute(
        "FLUSH BINARY LOGS",
        "CREATE TABLE app.t (id BIGINT PRIMARY KEY, v VARCHAR(9))",
        "INSERT INTO app.t VALUES (1, 'old')",
    )
    session = server.connect()
    with session.cursor() as cursor:
        for statement in ("XA START 'x'", "UPDATE app.t SET v = 'new'", "XA END 'x'", "XA PREPARE 'x'"):
            cursor.execute(statement)
    with Walk(address) as walk:
        base = latest_position(address, walk.connection, walk.facts)
        with reading(address, start=base) as recorder:
            copy = Copy(walk, base)
            assert copy.read() == {1: "old"}
            assert copy.rows == {1: "old"}
            with session.cursor() as cursor:
                cursor.execute(f"XA {end} 'x'")
                cursor.execute("INSERT INTO app.t VALUES (2, 'last')")
            await_rows(recorder, "t", 2 if end == "COMMIT" else 1)
            for chunk in recorder.chunks:
                copy.chunk(chunk)
    session.close()
    assert copy.rows == {1: "new" if end == "COMMIT" else "old", 2: "last"}
