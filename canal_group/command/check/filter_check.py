"""The check of the filter's rules: whether the tables that a source shows have the columns that they name."""

from __future__ import annotations

from rich.markup import escape

from actors.parse.server.described import shown_now
from actors.parse.server.preflight.preflight import Check
from actors.parse.server.source import SourceAddress
from actors.shard.rules import processing_of, view_of
from actors.sink.sink import Sink
from conf.stream_settings import FilterSettings
from merge.errors import DataError
from merge.values.chunk import TableName

_NAME = "filter.tables"


def check_filter(settings: FilterSettings, source: SourceAddress) -> list[Check]:
    """Return a failed check for each table of a source that a rule does not fit, and one for the others.

    Nothing is asked of the source, and nothing returned, if there are no rules.

    Raises:
        SourceUnavailable, SourceUnfit: the source does not answer.
        UnsupportedEvent: a column's type is not known.
    """
    if not settings.tables:
        return []
    sink, view, processing = Sink(settings.white, settings.black), view_of(settings), processing_of(settings)
    checks, fitting = list[Check](), 0

    def wanted(schema: str, table: str) -> bool:
        return (
            sink.select(schema, table) is not None and processing.rule(TableName(schema, table)) is not None
        )

    for table in shown_now(source, wanted):
        try:
            processing.columns(table.source, view.columns(table.columns, table.special))
            fitting += 1
        except DataError as error:
            checks.append(Check(_NAME, ok=False, found=escape(error.message.rstrip(".")), fix=error.hint))
    return [*checks, Check(_NAME, ok=True, found=f"fits {fitting} tables", fix="")]
