"""Result: what `canal-group compare` prints of a shard, for people in 80 columns, or as one JSON object.

{"shard", "ok", "transactions", "rows", "values", "known": {difference: count},
 "differences": [{"file", "offset", "table", "column", "ours", "theirs"}]}
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from typing import Final

from canal_group.programs.migration.compare.comparison import Comparison

_WIDTH: Final = 80
#: longest value that is printed, characters
_VALUE_CHARS_MAX: Final = 300


def result_lines(shard: str, comparison: Comparison, *, as_json: bool) -> Iterator[str]:
    """Yield the lines."""
    if as_json:
        yield json.dumps(
            {
                "shard": shard,
                "ok": comparison.ok,
                "transactions": comparison.transactions,
                "rows": comparison.rows,
                "values": comparison.values,
                "known": dict(comparison.known),
                "differences": [asdict(each) for each in comparison.differences],
            },
            ensure_ascii=False,
        )
        return
    for line in _for_people(shard, comparison):
        yield from textwrap.wrap(line, _WIDTH, subsequent_indent=" " * 8) or [line]


def _for_people(shard: str, comparison: Comparison) -> Iterator[str]:
    counted = (
        f"{comparison.rows} rows and {comparison.values} values of {comparison.transactions} transactions"
    )
    if not comparison.transactions and not comparison.differences:
        yield f"FAIL  {shard}: nothing was compared: no transaction came in both streams from its beginning"
    else:
        result = "are equal to canal's" if comparison.ok else "were compared with canal's"
        yield f"{'ok   ' if comparison.ok else 'FAIL '} {shard}: {counted} {result}"
    for kind, count in sorted(comparison.known.items()):
        yield f"      known: {count}: {kind}"
    for number, differs in enumerate(comparison.differences, 1):
        column = f", column {differs.column}" if differs.column else ""
        yield f"      difference {number}: {differs.file}:{differs.offset}, table {differs.table}{column}"
        yield f"      ours:    {_short(differs.ours)}"
        yield f"      canal's: {_short(differs.theirs)}"
    if comparison.is_over:
        yield f"      ended here, at --differences {comparison.differences_max}"


def _short(value: str) -> str:
    more = len(value) - _VALUE_CHARS_MAX
    return value if more <= 0 else f"{value[:_VALUE_CHARS_MAX]}... ({more} characters more)"
