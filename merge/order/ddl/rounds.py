"""DDL rounds: counts who has had a statement how often, and decides which time it is delivered.

Terms:

    statement   a number, the same for statements that say the same of tables with one routed name
    source      a table of a shard that has that name
    round       round k of a statement are its k-th times, one from each source

Rules:

1. With FIRST, a round's first time is delivered. So is CREATE TABLE with LAST: rows of the table come after
   it.
2. With LAST, the time that completes a round is delivered: then as many sources of each shard that is waited
   for have had it as the shard had tables of that name, or one, if their number is not known.
3. Waited for are the shards that were members when the statement came first, are members still, are not
   skipped, and have a table of the name, as far as is known. A shard that has had the statement is one of
   them.
4. A round that becomes complete without a statement, because a shard left or is skipped, is *missed*: its
   statement was withheld before. Nothing is delivered in its place; it is counted, and shown.
5. A table that is made later begins with the round that its shard has not had. A round that each of these
   shards has had, skipped ones too, is forgotten. At most `SOURCES_MAX` sources are counted. Beyond, the
   statement that came least recently is forgotten, one of which nothing is withheld first; else what is
   withheld of it is missed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from canal_group.merge.order.ddl.rule import DdlRule
from canal_group.merge.values.ddl_mark import CREATE, ERASE, RENAME, DdlMark
from canal_group.merge.whole import TIMES_US, whole

#: sources that are counted, over all statements
SOURCES_MAX = 65_536
#: statements that a status lists
SHOWN_MAX = 20


@dataclass(frozen=True, slots=True)
class Shards:
    """The shards when a statement comes."""

    members: Collection[str]
    #: members for which the group does not wait
    skipped: Collection[str] = ()
    #: names of the tables of each shard; a shard that is missing may have any
    tables: Mapping[str, Collection[str]] = field(default_factory=dict)


@dataclass(slots=True)
class _Open:
    op: str
    table: str
    #: where and when it came first: position and GTID for people; microseconds since 1970 UTC
    first_at: str
    since_us: int
    #: members when it came first
    members: tuple[str, ...]
    #: shard -> source -> times
    times: dict[str, dict[str, int]] = field(default_factory=dict)
    #: shard -> tables of the name; 0: not known
    tables: dict[str, int] = field(default_factory=dict)
    #: shard -> rounds that every table of the shard had seen at the shard's last report
    through: dict[str, int] = field(default_factory=dict)
    #: rounds that are delivered
    delivered: int = 0

    @property
    def rounds(self) -> int:
        """Rounds that have begun."""
        return max((count for counts in self.times.values() for count in counts.values()), default=0)

    def count(self, shard: str, mark: DdlMark) -> int:
        """Count one more time of a source; return the number of its round."""
        counts = self.times.setdefault(shard, {})
        counts[mark.source] = counts.get(mark.source, self.through.get(shard, 0)) + 1
        # What removes a table does not make the others fewer that have to be removed.
        before = self.tables.get(shard, 0) if mark.op in (ERASE, RENAME) else 0
        self.tables[shard] = max(before, mark.tables)
        self.through[shard] = self.had(shard, for_certain=True)
        return counts[mark.source]

    def had(self, shard: str, *, for_certain: bool) -> int:
        """Return how many rounds a shard has had.

        Args:
            shard: its name.
            for_certain: a shard of which it is not known how many tables it has has had none.
        """
        counts = sorted(self.times.get(shard, {}).values(), reverse=True)
        tables = self.tables.get(shard, 0) or (0 if for_certain else 1)
        found = counts[tables - 1] if 0 < tables <= len(counts) else 0
        return max(found, self.through.get(shard, 0))

    def concerned(self, shards: Shards) -> set[str]:
        """Return the members that have had it, or will, as far as is known."""
        tables = {} if self.op == CREATE else shards.tables
        return {
            shard
            for shard in {*self.members, *self.times} & set(shards.members)
            if shard in self.times or shard not in tables or self.table in tables[shard]
        }

    def waits_for(self, shards: Shards) -> list[str]:
        """Return the shards that complete a round (rule 3)."""
        return sorted(self.concerned(shards) - set(shards.skipped))

    def complete(self, shards: Shards) -> int:
        """Return how many rounds are complete."""
        return min((self.had(shard, for_certain=False) for shard in self.waits_for(shards)), default=0)

    def forget(self, shards: Shards) -> None:
        """Forget the rounds that each shard has had (rule 5)."""
        concerned = self.concerned(shards)
        rounds = min((self.had(shard, for_certain=True) for shard in concerned), default=0)
        if rounds:
            left = {
                shard: {source: count - rounds for source, count in counts.items() if count > rounds}
                for shard, counts in self.times.items()
            }
            self.times = {shard: counts for shard, counts in left.items() if counts}
            self.through = {shard: count - rounds for shard, count in self.through.items() if count > rounds}
            self.delivered = max(0, self.delivered - rounds)


class DdlRounds:
    """Decides which times of statements are delivered; see the module's rules.

    Args:
        rule: FIRST or LAST.
        sources_max: sources that are counted.
    """

    def __init__(self, rule: DdlRule, *, sources_max: int = SOURCES_MAX) -> None:
        self.rule = rule
        self._sources_max = sources_max
        #: statements by number, the least recent first
        self._open: dict[int, _Open] = {}
        self.missed = 0

    def decide(self, shard: str, mark: DdlMark, shards: Shards, *, at: str = "", commit_us: int = 0) -> bool:
        """Count a statement; return whether it is delivered.

        Args:
            shard: whose statement it is.
            mark: what is known of it.
            shards: as they are now.
            at: where it is, for people.
            commit_us: when it was committed, microseconds since 1970 UTC.
        """
        found = self._open.pop(mark.statement, None)
        found = found or _Open(mark.op, mark.table, at, commit_us, tuple(sorted(shards.members)))
        self._open[mark.statement] = found
        by_first = self.rule is DdlRule.FIRST or mark.op == CREATE
        if not by_first:
            self._miss(found, found.complete(shards))
        times = found.count(shard, mark)
        reached = times if by_first else found.complete(shards)
        delivered = reached > found.delivered
        found.delivered = max(found.delivered, reached)
        found.forget(shards)
        if not found.times:
            del self._open[mark.statement]
        self._bound(mark.statement)
        return delivered

    def _miss(self, found: _Open, complete: int) -> None:
        missed = max(0, complete - found.delivered)
        self.missed += missed
        found.delivered += missed

    def _bound(self, kept: int) -> None:
        """Forget statements until the bound holds, but not the one that just came."""
        sources = {number: sum(map(len, found.times.values())) for number, found in self._open.items()}
        while sum(sources.values()) > self._sources_max and len(sources) > 1:
            others = [number for number in sources if number != kept]
            done = (number for number in others if self._open[number].delivered >= self._open[number].rounds)
            gone = next(done, others[0])
            found = self._open.pop(gone)
            self._miss(found, found.rounds)
            del sources[gone]

    def describe(self, shards: Shards) -> list[dict[str, Any]]:
        """Return the statements that are withheld and not delivered, as JSON objects, the oldest first."""
        withheld = [(number, found) for number, found in self._open.items() if found.rounds > found.delivered]
        withheld.sort(key=lambda each: each[1].since_us)
        return [
            {
                "statement": f"{number:016x}",
                "op": found.op,
                "table": found.table,
                "first_at": found.first_at,
                "since_us": found.since_us,
                "has": {shard: len(counts) for shard, counts in sorted(found.times.items())},
                "waits_for": [
                    shard
                    for shard in found.waits_for(shards)
                    if found.had(shard, for_certain=False) <= found.delivered
                ],
            }
            for number, found in withheld[:SHOWN_MAX]
        ]

    @property
    def withheld(self) -> int:
        """Number of statements that are withheld and not delivered."""
        return sum(found.rounds > found.delivered for found in self._open.values())

    def to_json(self) -> list[dict[str, Any]]:
        """Return the counts as a JSON value."""
        return [
            {
                "statement": number,
                "op": found.op,
                "table": found.table,
                "first_at": found.first_at,
                "since_us": found.since_us,
                "members": list(found.members),
                "times": found.times,
                "tables": found.tables,
                "through": found.through,
                "delivered": found.delivered,
            }
            for number, found in self._open.items()
        ]

    def load_json(self, value: Any) -> None:
        """Take the counts that `to_json` made.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: it made none of these.
        """
        self._open = {
            whole(each["statement"]): _Open(
                str(each["op"]),
                str(each["table"]),
                str(each["first_at"]),
                whole(each["since_us"], TIMES_US),
                tuple(map(str, each["members"])),
                {str(shard): _counts(counts) for shard, counts in each["times"].items()},
                _counts(each["tables"]),
                _counts(each["through"]),
                whole(each["delivered"]),
            )
            for each in value
        }


def _counts(value: Mapping[str, Any]) -> dict[str, int]:
    return {str(name): whole(count) for name, count in value.items()}
