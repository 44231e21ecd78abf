"""What is known of the sources, and of where a stream began."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from canal_group.merge.values.position import GroupPosition
from canal_group.programs.demo.replica import Replica, Rows
from chaos.commits import Commits
from chaos.copies import Copy
from chaos.ends import End
from chaos.lateness import Oracle


@dataclass(frozen=True, slots=True)
class Truth:
    """The reference data of the audit."""

    #: what the writers committed
    records: Sequence[Commits]
    #: the tables that the servers hold now
    servers: Rows
    oracle: Oracle
    end: End
    #: the rows that there were when a stream without a snapshot began
    there: Rows = field(default_factory=dict)
    #: where a stream with a snapshot began, see `of_copy`
    begun: GroupPosition | None = None
    #: whether the snapshot was stopped, and begun again
    stopped: bool = False

    def of_copy(self, begun: str, *, stopped: bool) -> Self:
        """Return the reference data for a stream that began with a snapshot.

        Args:
            begun: the cursor at which it began.
            stopped: see the field.
        """
        return replace(self, begun=GroupPosition.from_json(begun), stopped=stopped)

    @property
    def expected(self) -> Sequence[Commits]:
        """What was committed after the stream began."""
        if self.begun is None:
            return self.records
        shards = self.begun.shards
        return [each.since(shards[each.shard]) if each.shard in shards else each for each in self.records]

    def replica(self) -> Replica:
        """Return the tables as they were when the stream began, as far as it knows them then."""
        return Replica(rows=self.there) if self.begun is None else Copy(self.begun, ends=not self.stopped)
