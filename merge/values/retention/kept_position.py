"""Kept positions: from where on somebody will read the binlog of a shard, so that an archive keeps it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from canal_group.merge.values.position import ANY_SERVER, Position

#: positions of a shard that are told, those of the oldest commits: files go from the oldest on
KEPT_MAX: Final = 100
#: owner of the position up to which all clients of the rings have acknowledged
RINGS: Final = "the rings"
#: offset of a file's first event
_BEGIN: Final = 4


@dataclass(frozen=True, slots=True)
class KeptPosition:
    """A position that somebody will read from."""

    #: such as a client id, for messages
    owner: str
    position: Position


def kept_files(positions: Iterable[tuple[str, Position]]) -> tuple[KeptPosition, ...]:
    """Return the beginnings of the files that owners of positions read, those of the oldest commits first.

    Files are removed as wholes, so these change only when an owner comes into another file. A position that
    is of no server's binlog has none.
    """
    oldest = sorted(positions, key=lambda each: (each[1].commit_us, each[0]))
    return tuple(
        KeptPosition(owner, Position(at.file, _BEGIN, server=at.server, created_s=at.created_s))
        for owner, at in oldest
        if at.server != ANY_SERVER
    )[:KEPT_MAX]
