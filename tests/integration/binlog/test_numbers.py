"""Numbers, and JSON that holds them, are printed as the server's own SELECT prints them."""

from __future__ import annotations

import contextlib
import json
import math
import random
import struct
from pathlib import Path
from typing import Any

import pymysql
import pytest
from support.rows.number_texts import DOUBLES
from support.soak import first_quick

from canal_group.binlog.files.binlog_files import files_in
from canal_group.programs.command.binlog.tool import server_at, show
from playground.database.server_process import DatabaseServer

#: how JSON may be written that is stored as it is written
TEXTS = ('{"b" : 1.00, "a":1E+2,"a":-0}', "1e-05", "[1.0,1e20 ,0.10]", "100000000000000000000000")
#: what JSON of MySQL's holds besides doubles
OTHERS = """
    0.00, -0.0, CAST('-0.00' AS DECIMAL(5,2)), 1.10, CAST(0 AS DECIMAL(65,30)),
    CAST('-1E-30' AS DECIMAL(65,30)),
    99999999999999999999999999999999999.000000000000000000000000000001, CAST('.5' AS DECIMAL(1,1)),
    -9223372036854775808, 18446744073709551615, 32768, -32769, TRUE, b'101', CAST(1999 AS YEAR),
    CAST('-838:59:59' AS TIME), CAST('-00:00:00.000001' AS TIME(6)), CAST('00:00' AS TIME(3)),
    DATE '2024-02-29', TIMESTAMP '2024-02-29 23:59:59', TIMESTAMP '1000-01-01 00:00:00.5',
    CAST('0000-00-00' AS DATE), CAST('x' AS BINARY), CONCAT('"', CHAR(7), CHAR(127), '/'), NULL
"""


def doubles(count: int, seed: int) -> list[float]:
    """Return the table's doubles and random ones: few digits with any exponent, any digits, any bits."""
    chance, found = random.Random(seed), list(DOUBLES)
    while len(found) < count:
        digits = chance.randrange(1, 10 ** chance.randint(1, 17))
        found.append(float(f"{chance.choice(('', '-'))}{digits}e{chance.randint(-40, 20)}"))
        (value,) = struct.unpack("<d", chance.randbytes(8))
        found += [value] if math.isfinite(value) else []
    return found


def write(server: DatabaseServer, values: list[float]) -> None:
    """Write each double as a DOUBLE and as JSON, and then the DOUBLE into a JSON document."""
    server.execute(
        "DROP DATABASE IF EXISTS app",
        "CREATE DATABASE app",
        "CREATE TABLE app.n (id INT AUTO_INCREMENT PRIMARY KEY, d DOUBLE, doc JSON, part JSON)",
        "FLUSH BINARY LOGS",
    )
    rows = [f"({value!r}, '[{value!r}]', @part)" for value in values]
    rows += [f"(NULL, '{text}', @part)" for text in TEXTS]
    is_mysql = server.engine == "mysql"
    rows += [f"(NULL, JSON_ARRAY({OTHERS}), @part)"] if is_mysql else []
    server.execute(
        "SET sql_mode = ''",
        "SET @part = JSON_OBJECT('d', 0, 'pad', REPEAT('x', 200))",
        f"INSERT INTO app.n (d, doc, part) VALUES {', '.join(rows)}",
        *(["SET binlog_row_value_options = PARTIAL_JSON"] if is_mysql else []),
        "UPDATE app.n SET part = JSON_SET(part, '$.d', d)",
    )


def selected(server: DatabaseServer) -> dict[str, tuple[Any, ...]]:
    encoders = {
        kind: each for kind, each in pymysql.converters.conversions.items() if not isinstance(kind, int)
    }
    with contextlib.closing(server.connect(conv=encoders)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id, d, doc, part FROM app.n")
        return {row[0]: row[1:] for row in cursor.fetchall()}


def decoded(server: DatabaseServer) -> tuple[dict[str, tuple[Any, ...]], str]:
    """Return the rows after the last change of each, as `canal-group binlog` prints them, and the file."""
    file = files_in(Path(server.folder) / "data")[-1]
    lines: list[str] = []
    lookup = server_at(f"root@127.0.0.1:{server.port}", server.password)
    show([file], lines.append, note=lines.append, as_json=True, lookup=lookup)
    rows = [row["after"] for row in map(json.loads, lines) if row.get("after")]
    return {row["id"]: (row["d"], row["doc"], row["part"]) for row in rows}, file.name


@pytest.mark.parametrize(
    ("count", "seed"), first_quick(1, [(300, 0), *((3_000, seed) for seed in range(1, 5))])
)
def test_numbers_and_json_are_what_select_prints(server: DatabaseServer, count: int, seed: int) -> None:
    write(server, doubles(count, seed))
    expected, (found, file) = selected(server), decoded(server)
    assert found.keys() == expected.keys()
    wrong = [(expected[number], row) for number, row in found.items() if expected[number] != row]
    assert wrong == []
    if server.engine == "mysql":
        kinds = [row[2] for row in server.execute(f"SHOW BINLOG EVENTS IN '{file}'")]
        assert "Update_rows_partial" in kinds, "the documents' differences were logged"
