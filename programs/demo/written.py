"""Written: the committed changes of a shard, all due at its consumer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Change:
    """Row changes of one kind, or a statement, in one transaction."""

    #: as the merged stream calls it
    table: str
    #: INSERT UPDATE DELETE ALTER
    op: str
    rows: int


@dataclass(slots=True)
class Record:
    """Committed changes of one shard, in order."""

    #: the shard's name
    shard: str
    #: what its GTIDs begin with: "domain-server-" of MariaDB, "uuid:" of MySQL
    gtid_source: str
    #: number of the first transaction in `transactions`
    first: int
    #: the changes of each transaction
    transactions: list[tuple[Change, ...]] = field(default_factory=list)
    #: row changes and statements in them
    rows: int = 0

    def add(self, changes: tuple[Change, ...]) -> None:
        """Remember a committed transaction."""
        self.transactions.append(changes)
        self.rows += sum(change.rows for change in changes)

    def by_gtid(self) -> Iterator[tuple[str, tuple[Change, ...]]]:
        """Yield the GTID and the changes of each transaction."""
        for number, changes in enumerate(self.transactions, self.first):
            yield f"{self.gtid_source}{number}", changes
