"""A real MySQL says which columns are VECTOR now, to `canal-group binlog --lookup` of a file of MariaDB's."""

from __future__ import annotations

import json

from support.rows.vectors import LARGE, SMALL, named, row, written

from canal_group.programs.command.binlog.tool import server_at, show


def test_vectors_are_printed_as_lists_of_floats(two_mysqls, tmp_path):
    server = two_mysqls[0].start()
    server.execute(
        "DROP DATABASE IF EXISTS app",
        "CREATE DATABASE app",
        "CREATE TABLE app.t (id INT, small VECTOR(3), large VECTOR(100), bytes VARBINARY(12))",
    )
    where = server_at(f"root@127.0.0.1:{server.port}", server.password)
    for tail in (b"", named()):
        lines: list[str] = []
        show(
            [written(tmp_path, row(1), tail=tail)],
            lines.append,
            note=lines.append,
            as_json=True,
            lookup=where,
        )
        (line,) = lines
        after = json.loads(line)["after"]
        assert after["id"] == "1"
        assert json.loads(after["small"]) == list(SMALL)
        assert json.loads(after["large"]) == list(LARGE)
        assert after["bytes"] == "abcdefgh"
