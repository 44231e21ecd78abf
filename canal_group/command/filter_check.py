"""The check of the filter's rules: whether the tables that a source shows have the columns that rules name."""

from __future__ import annotations

from typing import NamedTuple

from actors.parse.server.described import described_tables
from actors.parse.server.source import SourceAddress
from actors.shard.rules import processing_of
from actors.sink.sink import Sink
from conf.stream_settings import FilterSettings
from merge.errors import DataError
from merge.values.chunk import TableName


class FilterCheck(NamedTuple):
    """What was found at one source."""

    #: tables with a rule that the account can see
    tables: int
    #: a sentence for each rule that cannot be applied to a table
    failures: list[str]

    @property
    def fitting(self) -> int:
        """How many of the tables fit."""
        return self.tables - len(self.failures)


def check_filter(settings: FilterSettings, source: SourceAddress) -> FilterCheck:
    """Return how the rules of `filter.tables` fit a source.

    Raises:
        SourceUnavailable, SourceUnfit: the source does not answer.
        UnsupportedEvent: a column's type is not known.
    """
    sink, processing = Sink(settings.white, settings.black), processing_of(settings)
    tables, failures = 0, list[str]()

    def wanted(table: TableName) -> bool:
        return sink.select(*table) is not None and processing.rule(table) is not None

    for table, columns in described_tables(source, wanted):
        tables += 1
        try:
            processing.columns(table, columns)
        except DataError as error:
            failures.append(str(error))
    return FilterCheck(tables, failures)
