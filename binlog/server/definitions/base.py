"""Base: what a history on one server begins with, if another server was read before."""

from __future__ import annotations

from dataclasses import dataclass

from canal_group.binlog.schema.catalog import Catalog
from canal_group.merge.values.position import Position


@dataclass(frozen=True, slots=True)
class Base:
    """Definitions that were right at a position of another server."""

    catalog: Catalog
    position: Position
    #: whether statements between the position and where the stream begins have to be read
    gap: bool
