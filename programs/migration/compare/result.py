"""Result: what `canal-group compare` prints of a shard, for people in 80 columns, or as one JSON object.

{"shard", "ok", "transactions", "rows", "values", "known": {difference: count},
 "difference": {"file", "offset", "table", "column", "ours", "theirs"}}
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from typing import Final

from programs.migration.compare.comparison import Comparison

_WIDTH: Final = 80
#: longest value that is printed, characters
_VALUE_CHARS_MAX: Final = 300


def result_lines(shard: str, found: Comparison, *, as_json: bool) -> Iterator[str]:
    """Yield the lines."""
    if as_json:
        yield json.dumps(
            {
                "shard": shard,
                "ok": found.ok,
                "transactions": found.transactions,
                "rows": found.rows,
                "values": found.values,
                "known": dict(found.known),
                "difference": None if found.difference is None else asdict(found.difference),
            },
            ensure_ascii=False,
        )
        return
    for line in _for_people(shard, found):
        yield from textwrap.wrap(line, _WIDTH, subsequent_indent=" " * 8) or [line]


def _for_people(shard: str, found: Comparison) -> Iterator[str]:
    counted = f"{found.rows} rows and {found.values} values of {found.transactions} transactions"
    if not found.transactions and found.difference is None:
        yield f"FAIL  {shard}: nothing was compared: no transaction came in both streams from its beginning"
    else:
        yield f"{'ok   ' if found.ok else 'FAIL '} {shard}: {counted} are equal to canal's"
    for kind, count in sorted(found.known.items()):
        yield f"      known: {count}: {kind}"
    differs = found.difference
    if differs is not None:
        column = f", column {differs.column}" if differs.column else ""
        yield f"      first difference: {differs.file}:{differs.offset}, table {differs.table}{column}"
        yield f"      ours:    {_short(differs.ours)}"
        yield f"      canal's: {_short(differs.theirs)}"


def _short(value: str) -> str:
    left = len(value) - _VALUE_CHARS_MAX
    return value if left <= 0 else f"{value[:_VALUE_CHARS_MAX]}... ({left} characters more)"
