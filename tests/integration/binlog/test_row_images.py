"""Images that lack columns, and JSON documents of which only the differences are logged, of real servers."""

from __future__ import annotations

import itertools

import pytest
from support.sources.recorder import await_rows, reading

from canal_group.binlog.server.preflight.preflight import preflight
from canal_group.merge.errors import UnsupportedEvent
from canal_group.merge.values.rows.absent import absent_in, absent_names

#: absent
NO = "(absent)"


def images(recorder, table):
    """Return (before, after) of a table's changes, as tuples of values."""
    found = []
    for chunk in recorder.of("chunk"):
        for rows in (each.rows for each in chunk.tables if each.name.table == table):
            shown = []
            for image in ("before", "after"):
                columns = [field.name for field in rows.schema.field(image).type]
                absent = absent_names(absent_in(rows, image), columns, len(rows)).to_pylist()
                shown.append(
                    [
                        row and tuple(NO if name in (gone or ()) else row[name] for name in columns)
                        for row, gone in zip(rows.column(image).to_pylist(), absent, strict=True)
                    ]
                )
            found += zip(*shown, strict=True)
    return found


CHANGES = (
    "INSERT INTO app.t (id, a, b) VALUES (1, 10, 'x')",
    "UPDATE app.t SET a = 11",
    "UPDATE app.t SET id = 2, b = NULL",
    "DELETE FROM app.t",
)
#: statements with which a server packs what it logs; MariaDB has no setting for a session
PACKED = {
    "mysql": ("SET binlog_transaction_compression = ON",),
    "mariadb": ("SET GLOBAL log_bin_compress = ON", "SET GLOBAL log_bin_compress_min_len = 10"),
}
UNPACKED = {"mysql": (), "mariadb": ("SET GLOBAL log_bin_compress = OFF",)}


@pytest.fixture(params=["mysql", "mariadb"])
def engine(request):
    return request.param


def changed(server, address, kind, settings):
    """Return the images of CHANGES in a table that has a generated column of a kind."""
    server.execute(
        "CREATE TABLE app.t "
        f"(id INT PRIMARY KEY, a INT, b TEXT, c TIMESTAMP(6) NULL, g INT AS (a + 1) {kind})"
    )
    with reading(address) as recorder:
        server.execute(*settings, *CHANGES)
        await_rows(recorder, "t", 4)
    return images(recorder, "t")


@pytest.mark.parametrize("packed", [False, True])
def test_minimal_images(request, source_address, engine, packed):
    """What is not said is absent; an image after has what the one before it says."""
    server = request.getfixturevalue(engine)
    settings = (*(PACKED if packed else UNPACKED)[engine], "SET binlog_row_image = MINIMAL")
    try:
        found = changed(server, source_address(server), "STORED", settings)
    finally:
        server.execute(*UNPACKED[engine])
    unchanged = {"mysql": NO, "mariadb": 12}[engine]  # MariaDB logs it with each change of the row
    assert found == [
        (None, (1, 10, "x", NO, 11)),
        ((1, NO, NO, NO, NO), (1, 11, NO, NO, 12)),
        ((1, NO, NO, NO, NO), (2, NO, None, NO, unchanged)),
        ((2, NO, NO, NO, NO), None),
    ]


def test_images_without_blobs(request, source_address, engine):
    server = request.getfixturevalue(engine)
    found = changed(server, source_address(server), "VIRTUAL", ["SET binlog_row_image = NOBLOB"])
    assert found == [
        (None, (1, 10, "x", None, 11)),
        ((1, 10, NO, None, 11), (1, 11, NO, None, 12)),
        ((1, 11, NO, None, 12), (2, 11, None, None, 12)),
        ((2, 11, NO, None, 12), None),
    ]


#: each is logged as a difference; the names are such that their paths have to be quoted or escaped
UPDATES = (
    "JSON_SET(d, '$.n', 2)",
    "JSON_SET(d, '$.list[1]', 'ü', '$.list[9]', JSON_OBJECT('x', NULL), '$.list[last]', 1.5)",
    "JSON_REMOVE(d, '$.list[0]', '$.o.\"two words\"')",
    """JSON_SET(d, '$.o."a\\\\"b\\\\\\\\c"', 1, '$."日本".z', CAST('12:00:00' AS TIME))""",
    "JSON_REPLACE(d, '$.o', JSON_ARRAY(), '$.n', 12345678901)",
    "JSON_REMOVE(d, '$.o', '$.list[last]', '$.\"\"')",
    "d",
)


def test_partial_json(mysql, source_address):
    """Each step's image after is what the server prints of the document, and the next one's before."""
    insert = """INSERT INTO app.j VALUES (1, JSON_OBJECT('n', 1, 'list', JSON_ARRAY(1, 2, 3), '', 0, 'pad',
        REPEAT('x', 500), 'o', JSON_OBJECT('two words', 1), '日本', JSON_OBJECT('y', 1)), 0)"""
    mysql.execute("CREATE TABLE app.j (id INT PRIMARY KEY, d JSON, v INT)", insert)
    with reading(source_address(mysql)) as recorder:
        printed = mysql.execute("SELECT d FROM app.j")
        for each in UPDATES:
            update = f"UPDATE app.j SET v = v + 1, d = {each}"
            mysql.execute("SET binlog_row_value_options = PARTIAL_JSON", update)
            printed += mysql.execute("SELECT d FROM app.j")
        await_rows(recorder, "j", len(UPDATES))
    found = images(recorder, "j")
    texts = [text for (text,) in printed]
    assert [(before[1], after[1]) for before, after in found] == list(itertools.pairwise(texts))
    assert len(set(texts)) == len(UPDATES)
    (file, *_) = mysql.execute("SHOW BINARY LOGS")[-1]
    kinds = [kind for _, _, kind, *_ in mysql.execute(f"SHOW BINLOG EVENTS IN '{file}'")]
    assert kinds.count("Update_rows_partial") >= len(UPDATES), kinds


def test_partial_json_without_its_document_is_refused(mysql, source_address):
    address = source_address(mysql)
    mysql.execute(
        "CREATE TABLE app.j (id INT PRIMARY KEY, d JSON)",
        "INSERT INTO app.j VALUES (1, JSON_OBJECT('n', 1, 'pad', REPEAT('x', 500)))",
        "SET GLOBAL binlog_row_value_options = PARTIAL_JSON",
    )
    try:
        assert all(check.ok for check in preflight(address))
        mysql.execute("SET GLOBAL binlog_row_image = MINIMAL")
        (check,) = (check for check in preflight(address) if not check.ok)
        assert (check.name, check.fix) == (
            "binlog_row_value_options",
            "SET GLOBAL binlog_row_image = 'FULL';",
        )
        mysql.execute("SET GLOBAL binlog_row_value_options = ''")
        assert "absent" in {check.name: check for check in preflight(address)}["binlog_row_image"].found
    finally:
        mysql.execute("SET GLOBAL binlog_row_image = 'FULL'", "SET GLOBAL binlog_row_value_options = ''")

    def run():
        with reading(address) as recorder:
            mysql.execute(
                "SET binlog_row_value_options = PARTIAL_JSON, binlog_row_image = MINIMAL",
                "UPDATE app.j SET d = JSON_SET(d, '$.n', 2)",
            )
            await_rows(recorder, "j", 1)

    with pytest.raises(UnsupportedEvent, match="lack the document") as caught:
        run()
    assert "binlog_row_image = FULL" in caught.value.hint
