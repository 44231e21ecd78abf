"""Commits: what a writer committed, on which server, and between which two looks at the machine's clock.

This is what the audit knows of commit times. It owes nothing to the product, nor to the sources' stamps: a
transaction was stamped between the moment at which the writer sent it and the one at which it knew that it
was committed, by the clock of the server that it was sent to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from canal_group.demo.load.workload import Change
from canal_group.demo.load.writer import Record
from merge.values.gtid import GtidSet, parse_gtid_set


@dataclass(frozen=True, slots=True)
class Commit:
    """One transaction as its writer saw it."""

    gtid: str
    #: `server_id` of the server that it was sent to
    server: int
    #: before it was sent, and after it was known to be committed; microseconds since 1970
    begun_us: int
    done_us: int

    @property
    def gtid_set(self) -> GtidSet:
        """The set of it alone, or on MariaDB of it and all before it."""
        return parse_gtid_set(self.gtid)


@dataclass(slots=True)
class Commits(Record):
    """A record whose transactions say when they were committed, and where."""

    commits: list[Commit] = field(default_factory=list)

    def commit(self, changes: tuple[Change, ...], commit: Commit) -> None:
        """Remember a committed transaction."""
        # In this order: whoever reads meanwhile finds a commit of each transaction that it counts.
        self.commits.append(commit)
        self.add(changes)

    def by_gtid(self) -> Iterator[tuple[str, tuple[Change, ...]]]:
        """Yield the GTID and the changes of each transaction."""
        for commit, changes in zip(self.commits, self.transactions, strict=False):
            yield commit.gtid, changes

    @property
    def moved(self) -> bool:
        """Whether another server took the shard over, so that places are of several binlogs."""
        return len({commit.server for commit in self.commits}) > 1
