"""Selected tables: a table whose rows are selected, and read as those of its binlog are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from canal_group.binlog.columns.columns import TableSchema
from canal_group.binlog.columns.types.column import Role
from canal_group.binlog.formats.byte_cursor import ByteCursor
from canal_group.binlog.history.logged import lineage_of, table_of
from canal_group.binlog.schema.ancestry import Ancestry
from canal_group.binlog.schema.definition import SourceName, TableDefinition
from canal_group.binlog.schema.sql import quoted, quoted_table
from canal_group.binlog.snapshot.sent_value import SentValue
from canal_group.merge.snapshot.key import Key
from canal_group.merge.values.chunk import TableName


@dataclass(frozen=True, slots=True)
class SelectedTable:
    """A table whose rows are selected."""

    source: SourceName
    #: its rows have all columns that the binlog's have, but for MariaDB's hashes, which no query shows
    schema: TableSchema
    #: for each column
    sent: tuple[SentValue, ...]

    @classmethod
    def of(
        cls, definition: TableDefinition, name: TableName, ancestry: Ancestry | None = None
    ) -> SelectedTable:
        """Return a table by its definition.

        Args:
            definition: it.
            name: its name for consumers.
            ancestry: where its values have come from; None: not known.

        Raises:
            UnsupportedEvent: a column's type is not known, or its charset cannot be decoded.
        """
        table = table_of(definition)
        columns = tuple(column for column in table.columns if column.role is not Role.HASH)
        schema = TableSchema.of(name, replace(table, columns=columns), lineage_of(definition, ancestry))
        return cls(definition.name, schema, tuple(map(SentValue.of, columns)))

    @property
    def select(self) -> str:
        """The beginning of a SELECT of all its columns, each by its name."""
        selected = (sent.select.format(quoted(sent.column.name)) for sent in self.sent)
        return f"SELECT {', '.join(selected)} FROM {quoted_table(self.source)}"  # noqa: S608 - they are quoted

    def key_of(self, row: bytes, names: Sequence[str]) -> Key | None:
        """Return values of a row as a key; None if one of them is NULL.

        Args:
            row: as it was sent; the first byte says that it is one.
            names: of the columns.

        Raises:
            CorruptEvent: the row ends inside a value, or a value is not one of its column.
        """
        cursor = ByteCursor(row, 1)
        # Two bits before the first column's are unused.
        nulls = int.from_bytes(cursor.take((len(self.sent) + 9) // 8), "little") >> 2
        key = dict.fromkeys(names, "")
        for index, sent in enumerate(self.sent):
            value = b"" if nulls >> index & 1 else sent.take(cursor)
            if sent.column.name in key:
                if nulls >> index & 1:
                    return None
                key[sent.column.name] = sent.literal(value)
        return tuple(key.values())
