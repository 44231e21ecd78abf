"""Described tables: the Arrow columns of a source's tables, before any row has arrived.

They are derived from the definitions of tables as rows derive theirs, see
`canal_group.binlog.history.logged`: from those that a stream follows, or else from what the server shows now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import NamedTuple

import pyarrow as pa

from canal_group.binlog.columns.columns import fields_of
from canal_group.binlog.columns.special import special_of
from canal_group.binlog.history.logged import lineage_of, table_of
from canal_group.binlog.schema.ancestry import Ancestry
from canal_group.binlog.schema.definition import TableDefinition
from canal_group.binlog.server.definitions.dictionary import Dictionary
from canal_group.binlog.server.source import SourceAddress, connect, server_facts
from canal_group.merge.values.chunk import Lineage, SpecialColumns, TableName


class Described(NamedTuple):
    """A table of a source."""

    #: its name in the source
    source: TableName
    #: the columns that the source logs, as rows have them, but that an ENUM is plain text
    columns: pa.Schema
    special: SpecialColumns | None
    lineage: Lineage


def described(definition: TableDefinition, ancestry: Ancestry | None = None) -> Described:
    """Return the columns of a table, of its definition.

    Args:
        definition: it.
        ancestry: where its values have come from; None: not known.

    Raises:
        UnsupportedEvent: a column's type is not known, or its charset cannot be decoded.
    """
    table = table_of(definition)
    fields = [
        each.with_type(each.type.value_type) if pa.types.is_dictionary(each.type) else each
        for each in fields_of(table)
    ]
    name, special = TableName(table.schema, table.table), special_of(table.columns)
    return Described(name, pa.schema(fields), special, lineage_of(definition, ancestry))


def shown_now(address: SourceAddress, wanted: Callable[[str, str], bool]) -> Iterator[Described]:
    """Yield the wanted tables that the account can see, as they are now.

    Raises:
        SourceUnavailable: the source does not answer.
        SourceUnfit: it refuses the connection or a query.
        UnsupportedEvent: see `described`.
    """
    with closing(connect(address)) as connection:
        dictionary = Dictionary(address, connection, server_facts(address, connection))
        names = [name for name in dictionary.listed().tables if wanted(*name)]
        definitions = map(dictionary.definition, names)
        yield from (described(definition) for definition in definitions if definition is not None)
