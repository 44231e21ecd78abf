"""A shard's answer to a poll; in a module of its own, so that the group need not import the parser."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from canal_group.merge.errors import CanalGroupError
from canal_group.merge.values.header import HeaderRun
from canal_group.merge.values.history_text import HistoryText

#: sequence of a report without a transaction
NOTHING = -1


@dataclass(frozen=True, slots=True)
class ShardReport:
    """A shard's report to the group."""

    #: new headers; None: no transaction since the last report
    run: HeaderRun | None
    #: the source's low watermark after all headers so far; None: nothing new
    frontier_us: int | None
    #: why the shard stopped; None if it did not
    error: CanalGroupError | None
    #: identity of the server that is read; empty: not known
    server: str = ""
    #: whether it stops reading until something is acknowledged
    full: bool = False
    #: time of this report by the clock that stamps the source's commits, microseconds since 1970 UTC; None if
    #: unknown
    source_us: int | None = None
    #: creation times of the binlog files in `run`, by name, seconds since 1970; only those that are known
    created: Mapping[str, int] = field(default_factory=dict)
    #: what is new of the schema history, to be stored before anything of `run` is delivered; None: nothing
    history: HistoryText | None = None
    #: destination names of the shard's tables; None: as before, or not known
    tables: frozenset[str] | None = None
    #: what the shard is reading, for the case that it does not answer any more; empty: not known
    reading: str = ""
