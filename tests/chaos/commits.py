"""Commits: what a writer committed, on which server, and between which two readings of the machine's clock.

The audit knows commit times from here. They depend neither on the product nor on the sources' stamps. The
server stamped a transaction, by its own clock, between two moments: when the writer sent the transaction, and
when the writer learned that it was committed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from canal_group.merge.values.gtids.gtid import GtidSet, parse_gtid_set
from canal_group.merge.values.position import Position
from canal_group.programs.demo.written import Change, Record


@dataclass(frozen=True, slots=True)
class Commit:
    """One transaction as its writer recorded it."""

    gtid: str
    #: `server_id` of the server that it was sent to
    server: int
    #: before it was sent, and after it was known to be committed; microseconds since 1970
    begun_us: int
    done_us: int
    #: whether consumers get anything of it
    kept: bool = True

    @property
    def gtid_set(self) -> GtidSet:
        """The GTID set of this transaction alone; on MariaDB, of it and all before it."""
        return parse_gtid_set(self.gtid)


@dataclass(slots=True)
class Commits(Record):
    """A record whose transactions know when and where they were committed."""

    commits: list[Commit] = field(default_factory=list)

    def commit(self, changes: tuple[Change, ...], commit: Commit) -> None:
        """Remember a committed transaction."""
        # In this order, a concurrent reader finds a commit for each transaction that it counts.
        self.commits.append(commit)
        self.add(changes)

    def by_gtid(self) -> Iterator[tuple[str, tuple[Change, ...]]]:
        """Yield the GTID and the changes of each transaction."""
        for commit, changes in zip(self.commits, self.transactions, strict=False):
            yield commit.gtid, changes

    def since(self, position: Position) -> Commits:
        """Return the commits after a position of the shard."""
        left = [not position.gtid_set.contains(commit.gtid_set) for commit in self.commits]
        begin = left.index(True) if True in left else len(left)
        after = Commits(self.shard, self.gtid_source, self.first + begin)
        for commit, changes in zip(self.commits[begin:], self.transactions[begin:], strict=False):
            after.commit(changes, commit)
        return after

    @property
    def moved(self) -> bool:
        """Whether another server took over the shard, so that positions are of several binlogs."""
        return len({commit.server for commit in self.commits}) > 1
