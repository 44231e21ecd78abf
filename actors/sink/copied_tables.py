"""Copied tables: the names that tools of migrations give to copies of a table, before and after they swap it.

gh-ost                       _t_gho  _t_ghc  _t_del  _t_20260131120000_del
pt-online-schema-change      _t_new  _t_old, with up to ten underscores before
spirit                       _t_new  _t_old  _t_old_20260131_120000  _t_chkpnt
OnlineSchemaChange           __osc_new_t  __osc_old_t  __osc_chg_t
LHM                          lhmn_t  lhma_2026_01_31_12_00_00_000_t
"""

from __future__ import annotations

import re

_COPY = re.compile(
    r"_+(?P<framed>.+?)_(?:gho|ghc|new|chkpnt|(?:\d{14}_)?del|old(?:_\d{8}_\d{6})?)"
    r"|__osc_(?:new|old|chg)_(?P<osc>.+)"
    r"|lhm(?:n|a_[\d_]{23})_(?P<lhm>.+)",
    re.IGNORECASE,
)


def copied_tables(name: str) -> list[str]:
    """Return the names of tables of which a table may be a copy; none for most.

    Args:
        name: of a table, without its schema.
    """
    match = _COPY.fullmatch(name)
    if match is None:
        return []
    copied = match["framed"] or match["osc"] or match["lhm"]
    # A table's own name may begin with underscores.
    return [copied, *(f"{'_' * count}{copied}" for count in range(1, len(name) - len(name.lstrip("_"))))]
