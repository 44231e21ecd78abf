"""The check of the filter's rules: whether they fit a source's tables, and what they do not cover."""

from __future__ import annotations

from collections.abc import Iterable

from rich.markup import escape

from canal_group.actors.shard.rules import processing_of, view_of
from canal_group.actors.sink.sink import Sink
from canal_group.actors.sink.table_rule import TableRule
from canal_group.binlog.server.described import Described, shown_now
from canal_group.binlog.server.preflight.preflight import Check
from canal_group.binlog.server.source import SourceAddress
from canal_group.conf.stream_settings import FilterSettings
from canal_group.merge.errors import DataError

_NAME = "filter.tables"


def check_filter(settings: FilterSettings, source: SourceAddress) -> list[Check]:
    """Return a failed check for each table of a source that a rule does not fit, and one for the others.

    Before that one come warnings of what an operator may have overlooked: a rule that applies by lineage, a
    column that reads a masked one, a table with the columns of a masked one and no rule. Nothing is asked of
    the source, and nothing returned, if there are no rules.

    Raises:
        SourceUnavailable, SourceUnfit: the source does not answer.
        UnsupportedEvent: a column's type is not known.
    """
    if not settings.tables:
        return []
    sink, view, processing = Sink(settings.white, settings.black), view_of(settings), processing_of(settings)
    checks, fitting = list[Check](), 0
    ruled, free = list[tuple[Described, TableRule]](), list[Described]()
    for table in shown_now(source, lambda *name: sink.select(*name) is not None):
        rule = processing.rule(table.source)
        if rule is None:
            free.append(table)
            continue
        ruled.append((table, rule))
        try:
            processing.columns(table.source, view.columns(table.columns, table.special), table.lineage)
            fitting += 1
        except DataError as error:
            checks.append(Check(_NAME, ok=False, found=escape(error.message.rstrip(".")), fix=error.hint))
    warned = [*_followed(ruled), *_reading(ruled), *_without_rule(ruled, free)]
    checks += [Check(_NAME, ok=True, found=escape(found), fix=fix) for found, fix in warned]
    return [*checks, Check(_NAME, ok=True, found=f"fits {fitting} tables", fix="")]


def _followed(ruled: Iterable[tuple[Described, TableRule]]) -> Iterable[tuple[str, str]]:
    for table, rule in ruled:
        if not rule.matches(table.source):
            yield (
                f"rule {rule.match!r} applies to {table.source}, which has the name of a tool's copy",
                "an entry of its own before that rule, if it is another table",
            )


def _reading(ruled: Iterable[tuple[Described, TableRule]]) -> Iterable[tuple[str, str]]:
    for table, rule in ruled:
        for name in sorted(table.lineage.reading(rule.protected) - rule.protected):
            read = ", ".join((table.lineage.reads or {})[name])
            found = f"column {name} of {table.source} is left out: it reads {read}, which rule {rule.match!r}"
            yield f"{found} masks or drops", "a mask, black_columns, or a computed column that shows it"


def _without_rule(
    ruled: Iterable[tuple[Described, TableRule]], free: Iterable[Described]
) -> Iterable[tuple[str, str]]:
    """Return which tables may be copies without a rule: they have the columns that one masks or drops."""
    ruled = sorted(ruled, key=lambda each: (not each[1].matches(each[0].source), each[0].source))
    for table in free:
        names = {name.lower() for name in table.columns.names}
        for other, rule in ruled:
            if rule.protected and rule.protected <= names and table.source.schema == other.source.schema:
                columns = ", ".join(sorted(rule.protected))
                found = (
                    f"{table.source} has no rule, and the columns of {other.source} that rule {rule.match!r}"
                )
                yield (
                    f"{found} masks or drops: {columns}",
                    "an entry for it in filter.tables, or filter.black, if it is a copy",
                )
                break
