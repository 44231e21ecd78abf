"""A table of a server with random columns and changes."""

from __future__ import annotations

import contextlib

import pymysql
from integration.differential import NULL

ROWS = 30


class Table:
    """A table by chance, and the rows that are in it."""

    def __init__(self, server, name, columns, chance):
        self.server, self.name, self.columns, self.chance = server, name, columns, chance

    def write(self, changes=ROWS):
        names = [f"c{index}" for index in range(len(self.columns))]
        definition = ", ".join(f"{name} {kind.sql}" for name, kind in zip(names, self.columns, strict=True))
        with contextlib.closing(self.server.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'")
            cursor.execute(f"CREATE TABLE app.{self.name} (id INT PRIMARY KEY, {definition}) CHARSET utf8mb4")
            for number in range(changes):
                values = [
                    kind.value(self.chance) if self.chance.random() < 0.85 else NULL for kind in self.columns
                ]
                self._run(cursor, f"INSERT INTO app.{self.name} VALUES ({number}, {{}})", values)
            for number in range(0, changes, 3):
                chosen = self.chance.sample(range(len(names)), min(9, len(names)))
                sets = ", ".join(f"{names[index]} = {{{at}}}" for at, index in enumerate(chosen))
                values = [self.columns[index].value(self.chance) for index in chosen]
                sql = sets.format(*(expression for expression, _ in values))
                parameters = [each for _, several in values for each in several]
                cursor.execute(f"UPDATE app.{self.name} SET {sql} WHERE id = {number}", parameters)
            cursor.execute(f"DELETE FROM app.{self.name} WHERE id % 7 = 2")

    @staticmethod
    def _run(cursor, sql, values):
        parameters = [each for _, several in values for each in several]
        cursor.execute(sql.format(", ".join(expression for expression, _ in values)), parameters)

    def selected(self):
        """Return id -> values as SELECT gives them, none converted."""
        shown = ", ".join(kind.select.format(f"c{index}") for index, kind in enumerate(self.columns))
        with (
            contextlib.closing(self.server.connect(conv=ENCODERS)) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("SET time_zone = '+00:00'")
            cursor.execute(f"SELECT id, {shown} FROM app.{self.name}")
            return {int(row[0]): row[1:] for row in cursor.fetchall()}


#: how parameters are sent; what comes back stays as it is
ENCODERS = {kind: each for kind, each in pymysql.converters.conversions.items() if not isinstance(kind, int)}
