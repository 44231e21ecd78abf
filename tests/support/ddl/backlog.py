"""A backlog of some 8 MiB with statements in it, and how often its source has sent it."""

from __future__ import annotations

_DIGITS = f"({' UNION ALL '.join(f'SELECT {digit} AS d' for digit in range(10))})"
#: makes a table that no statement of the backlog touches, and one that counts
PREPARE = (
    "CREATE TABLE app.kept (id INT, note VARCHAR(1000))",
    "CREATE TABLE app.seq (n INT PRIMARY KEY)",
    f"INSERT INTO app.seq SELECT a.d + 10 * b.d + 100 * c.d FROM {_DIGITS} a, {_DIGITS} b, {_DIGITS} c",
)
_FILL = "INSERT INTO app.{} ({}) SELECT seq.n + {}, REPEAT('x', 1000) FROM app.seq"
_BULK = 1_000


def fill(table, columns, begin):
    """Return a statement that writes some mebibyte of rows to a table."""
    return _FILL.format(table, columns, begin)


def sent_bytes(server):
    ((_, sent),) = server.execute("SHOW GLOBAL STATUS LIKE 'Bytes_sent'")
    return int(sent)


def backlog_bytes(server, start):
    sizes = {row[0]: int(row[1]) for row in server.execute("SHOW BINARY LOGS")}
    return sum(size for file, size in sizes.items() if file >= start.file) - start.offset


def written(server):
    """Write some 8 MiB, with statements before, between and after the rows; return each table's rows.

    `PREPARE` has to be executed first.
    """
    server.execute(
        "CREATE TABLE app.t (id INT PRIMARY KEY, v VARCHAR(1000))",
        fill("t", "id, v", 0),
        "FLUSH BINARY LOGS",
        fill("kept", "id, note", 0),
        fill("t", "id, v", _BULK),
        "ALTER TABLE app.t CHANGE COLUMN v w VARCHAR(1000), ADD COLUMN x INT DEFAULT 7 FIRST",
        fill("t", "id, w", 2 * _BULK),
        fill("kept", "id, note", _BULK),
        "RENAME TABLE app.t TO app.u",
        "CREATE TABLE app.t (y INT, z VARCHAR(1000))",
        fill("u", "id, w", 3 * _BULK),
        fill("t", "y, z", 0),
        fill("kept", "id, note", 2 * _BULK),
        "ALTER TABLE app.u DROP COLUMN w",
        "INSERT INTO app.u VALUES (1, 9999)",
    )
    text = "x" * 1000
    return {
        "t": [
            *({"id": number, "v": text} for number in range(2 * _BULK)),
            *({"x": 7, "id": number, "w": text} for number in range(2 * _BULK, 3 * _BULK)),
            *({"y": number, "z": text} for number in range(_BULK)),
        ],
        "u": [
            *({"x": 7, "id": number, "w": text} for number in range(3 * _BULK, 4 * _BULK)),
            {"x": 1, "id": 9999},
        ],
        "kept": [{"id": number, "note": text} for number in range(3 * _BULK)],
    }
