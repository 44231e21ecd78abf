"""Make what decides on tables' rows and columns from the filter's settings."""

from __future__ import annotations

from canal_group.actors.sink.consumer_view import ConsumerView, History
from canal_group.actors.sink.mask import Mask, MaskKind
from canal_group.actors.sink.process import Process
from canal_group.actors.sink.processing import Processing
from canal_group.actors.sink.table_rule import TableRule
from canal_group.conf.filters.expression_text import parse_expression
from canal_group.conf.filters.table_settings import MaskSettings, ProcessSettings, TableSettings
from canal_group.conf.stream_settings import FilterSettings


def view_of(settings: FilterSettings) -> ConsumerView:
    """Return the view of consumers, before rules apply."""
    return ConsumerView(History(settings.history))


def processing_of(settings: FilterSettings) -> Processing:
    """Return the processing that the filter's `tables` describe."""
    salt = settings.salt.get_secret_value().encode() if _hashes(settings) and settings.salt else b""
    return Processing([_rule(table, salt) for table in settings.tables])


def _hashes(settings: FilterSettings) -> bool:
    return any(mask.kind == "hash" for table in settings.tables for mask in table.masks)


def _rule(table: TableSettings, salt: bytes) -> TableRule:
    return TableRule(
        table.match,
        white_columns=frozenset(name.lower() for name in table.white_columns),
        black_columns=frozenset(name.lower() for name in table.black_columns),
        kinds=frozenset(table.keep),
        where=None if table.where is None else parse_expression(table.where),
        renamed={each.column.lower(): each.to for each in table.rename},
        masks={each.column.lower(): _mask(each, salt) for each in table.masks},
        computed={each.name: parse_expression(each.expression) for each in table.computed},
        process=None if table.process is None else _process(table.process),
        drop_unchanged=table.drop_unchanged,
    )


def _process(settings: ProcessSettings) -> Process:
    return Process(settings.function, settings.plug_in.make)


def _mask(mask: MaskSettings, salt: bytes) -> Mask:
    kind = MaskKind(mask.kind)
    value = "" if mask.value is None else mask.value
    return Mask(kind, mask.last or 0, value, salt if kind is MaskKind.HASH else b"")
