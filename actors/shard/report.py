"""What a shard tells the group with each poll: apart from the shard, so that the group needs no parser."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from merge.errors import CanalGroupError
from merge.values.header import HeaderRun

#: in place of a sequence: there is none
NOTHING = -1


@dataclass(frozen=True, slots=True)
class ShardReport:
    """What a shard has to say to the group."""

    #: new headers; None: none
    run: HeaderRun | None
    #: the source's promise, made after every header so far; None: none
    frontier_us: int | None
    #: why the shard stopped; None: it did not
    error: CanalGroupError | None
    #: identity of the server that is read; empty: not known
    server: str = ""
    #: whether it reads no further until something is acknowledged
    full: bool = False
    #: time by the clock that stamps the source's commits when this was said, microseconds since 1970 UTC;
    #: None: not known
    source_us: int | None = None
    #: when the binlog files that `run` names were created, by name, seconds since 1970; those that are known
    created: Mapping[str, int] = field(default_factory=dict)
