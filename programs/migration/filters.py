"""Filters: canal's filters of tables, columns and kinds of changes as `filter`.

canal has one filter for each instance, we have one for all shards of a destination. Where the instances of a
group differ, a shard keeps what any of them kept: nothing is lost, and what is too much is said.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from canal_group.merge.rows.pattern import PatternList
from canal_group.merge.rows.pattern_syntax import PatternSyntax
from canal_group.merge.rows.table_filter import split_patterns
from canal_group.programs.migration.canal_files.properties import Entry
from canal_group.programs.migration.canal_files.view import View
from canal_group.programs.migration.report import Report

_PREFIX = "canal.instance.filter."
#: patterns that keep every table
_ALL: Final = frozenset({r".*\..*", ".*", r".+\..+", r".*\..+", r".+\..*"})
#: what canal delivers by default: its parser drops account statements, views and routines
_KINDS: Final = ("insert", "update", "delete", "ddl")
#: canal's flag -> what it leaves out
LEFT_OUT: Final = {
    f"{_PREFIX}dml.insert": ("insert",),
    f"{_PREFIX}dml.update": ("update",),
    f"{_PREFIX}dml.delete": ("delete",),
    f"{_PREFIX}rows": ("insert", "update", "delete"),
    f"{_PREFIX}query.ddl": ("ddl",),
}
_DCL: Final = f"{_PREFIX}query.dcl"
_DIFFERS = "the instances differ, and one filter counts for all shards: "


def filter_of(views: Sequence[View], report: Report) -> dict[str, Any]:
    """Return `filter` for the instances; only what differs from its defaults.

    Raises:
        ConfigError: an expression cannot be used here, or an entry is malformed.
    """
    settings: dict[str, Any] = {}
    white, black = _white(views, report), _black(views, report)
    if white:
        settings["white"] = ",".join(white)
    if black:
        settings["black"] = ",".join(black)
    settings["tables"] = _tables(views, _keep(views, report), report)
    return settings


def _patterns(view: View, key: str) -> list[str]:
    """Return the expressions of an entry.

    Raises:
        ConfigError: one of them cannot be used.
    """
    text, entry = view.text(key), view.entry(key)
    patterns = split_patterns(text or "")
    for pattern in patterns:
        try:
            PatternList([pattern])
        except PatternSyntax as error:
            assert entry is not None
            raise entry.wrong(
                "hold expressions that RE2 matches; what a lookahead leaves out goes into"
                " `canal.instance.filter.black.regex`",
                f"has {pattern!r} ({error})",
            ) from None
    return patterns


def _white(views: Sequence[View], report: Report) -> list[str]:
    key = f"{_PREFIX}regex"
    lists = [_patterns(view, key) for view in views]
    everything = any(not each or _ALL & set(each) for each in lists)
    joined = [] if everything else list(dict.fromkeys(pattern for each in lists for pattern in each))
    for view, own in zip(views, lists, strict=True):
        entry = view.entry(key)
        if not joined:
            report.setting(entry, "`filter.white` is not needed: every table is kept")
        else:
            report.setting(entry, f"`filter.white`: {','.join(joined)}")
        all_of_it = not own or _ALL & set(own)
        if (everything and not all_of_it) or (not everything and own != joined):
            report.act(
                entry, f"{_DIFFERS}each of them keeps the tables of all. Narrow `filter.white` if it must not"
            )
    return joined


def _black(views: Sequence[View], report: Report) -> list[str]:
    key = f"{_PREFIX}black.regex"
    lists = [_patterns(view, key) for view in views]
    common = [pattern for pattern in lists[0] if all(pattern in each for each in lists)]
    for view, own in zip(views, lists, strict=True):
        entry = view.given(key)
        if common:
            report.setting(entry, f"`filter.black`: {','.join(common)}")
        if own != common:
            others = ", ".join(pattern for pattern in own if pattern not in common)
            report.act(entry, f"{_DIFFERS}{others} is not in every list, and those tables are kept")
    return common


def _keep(views: Sequence[View], report: Report) -> list[str]:
    each_keeps = [
        [
            kind
            for kind in _KINDS
            if not any(kind in dropped for flag, dropped in LEFT_OUT.items() if view.flag(flag))
        ]
        for view in views
    ]
    kinds = [kind for kind in _KINDS if any(kind in keeps for keeps in each_keeps)]
    for view in views:
        for flag, dropped in LEFT_OUT.items():
            entry = view.entry(flag)
            if not view.flag(flag):
                report.setting(entry, f"`filter.tables[].keep` has {', '.join(dropped)}")
            elif set(dropped) & set(kinds):
                report.act(entry, f"{_DIFFERS}{', '.join(dropped)} stay in `filter.tables[].keep`")
            else:
                report.setting(entry, f"`filter.tables[].keep` is without {', '.join(dropped)}")
        if view.flag(_DCL):
            report.act(
                view.entry(_DCL),
                "`filter.tables[].keep` is without dcl and query; CREATE and DROP DATABASE are ddl and stay",
            )
        else:
            report.setting(
                view.entry(_DCL),
                "`filter.tables[].keep` is without dcl and query: canal's parser drops such statements",
            )
        error = view.given(f"{_PREFIX}table.error")
        if view.flag(f"{_PREFIX}table.error"):
            report.act(
                error,
                "rows that canal skipped, because their table is not known, stop their shard here. Leave such"
                " tables out by `filter.black`",
            )
    return kinds


def _tables(views: Sequence[View], keep: list[str], report: Report) -> list[dict[str, Any]]:
    white, black = (_columns(views, f"{_PREFIX}{key}", report) for key in ("field", "black.field"))
    rules = []
    for table in dict.fromkeys([*white, *black]):
        rule: dict[str, Any] = {"match": re.escape(table)}
        # As in canal, the white list of a table counts alone.
        rule |= {"white_columns": white[table]} if table in white else {"black_columns": black[table]}
        rules.append(rule | {"keep": keep})
    return [*rules, {"match": ".*", "keep": keep}]


def _columns(views: Sequence[View], key: str, report: Report) -> dict[str, list[str]]:
    columns_of: dict[str, list[str]] = {}
    for view in views:
        text, entry = view.text(key), view.given(key)
        if text is None or entry is None:
            continue
        for table, columns in _fields(text, entry):
            if columns_of.setdefault(table, columns) != columns:
                raise entry.wrong("list the same columns of a table everywhere", f"lists others of {table}")
        name = "white_columns" if key.endswith("filter.field") else "black_columns"
        report.setting(entry, f"`filter.tables[].{name}`")
    return columns_of


def _fields(text: str, entry: Entry) -> list[tuple[str, list[str]]]:
    """Return the tables and columns of `schema.table:column/column,...`, in lower case."""
    fields = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        table, _, columns = part.lower().partition(":")
        names = [name.strip() for name in columns.split("/") if name.strip()]
        if "." not in table or not names:
            raise entry.wrong("be `schema.table:column/column`, several separated by commas", f"has {part!r}")
        fields.append((table.strip(), names))
    return fields
