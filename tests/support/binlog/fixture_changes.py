"""The changes that a binlog of the fixtures has."""

from __future__ import annotations

from canal_group.binlog.files.binlog_files import BinlogFiles
from canal_group.merge.values.chunk import Op, TableName

J = ("CREATE", "fx.j")


def changes_of(path):
    """Return a file's changes in order: statements as (op, table), rows as (op, table, before, after).

    Images are given without their null columns.
    """
    found = []
    for number, chunk in enumerate(BinlogFiles([path], TableName)):
        for table in chunk.tables:
            for row in table.rows.to_pylist():
                images = (row["before"], row["after"])
                shown = [i and {k: v for k, v in i.items() if v is not None} for i in images]
                index = (number, row["_header"], row["_row"])
                found.append((index, (Op(row["_op"]).name, str(table.name), *shown)))
        for each in chunk.statements.to_pylist() if chunk.statements else ():
            name = f"{each['schema']}.{each['table']}"
            found.append(((number, each["_header"], each["_row"]), (each["op"], name)))
    return [change for _, change in sorted(found, key=lambda each: each[0])]


def inserts(table, *rows):
    return [("INSERT", table, None, row) for row in rows]


def deletes(table, *rows):
    return [("DELETE", table, row, None) for row in rows]


def updates(table, *pairs):
    return [("UPDATE", table, before, after) for before, after in pairs]


def id_only(*numbers):
    return [{"id": number} for number in numbers]
