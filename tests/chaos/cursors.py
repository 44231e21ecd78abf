"""The cursor's history: every write of it in ZooKeeper, with its epoch and session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from canal_group.actors.coordination.consumer_nodes import parsed
from canal_group.merge.errors import UsageError
from canal_group.merge.values.position import GroupPosition, Position
from canal_group.zookeeper.tree import Tree
from chaos.history import Entry, IncompleteHistoryError, Kind


@dataclass(frozen=True, slots=True)
class CursorWrite:
    """One write of the cursor."""

    zxid: int
    #: the content of the node
    text: str
    #: the server's epoch at that time
    epoch: int
    #: whether the write was conditional on that epoch, or came from the session that had won it
    fenced: bool

    @property
    def cursor(self) -> GroupPosition:
        """The position."""
        return GroupPosition.from_json(self.text)


def cursor_writes(entries: Sequence[Entry], tree: Tree, client_id: str) -> Iterator[CursorWrite]:
    """Yield the writes of a client id's cursor, oldest first.

    Raises:
        IncompleteHistoryError: some are missing.
    """
    node = f"{tree.client(client_id)}/cursor"
    epoch, owner, version = 0, "", -1
    for entry in entries:
        checked = False
        for change in entry.changes:
            if change.path == tree.epoch and change.kind in {Kind.CREATE, Kind.CREATE2, Kind.SET}:
                epoch, owner = change.version, str(parsed(change.data).get("session", ""))
            elif change.path == tree.epoch and change.kind is Kind.CHECK:
                checked = change.version == epoch
            elif change.path == node and change.kind in {Kind.CREATE, Kind.CREATE2, Kind.SET}:
                version = _follow(version, change.version, is_new=change.kind is not Kind.SET)
                fenced = checked or hex(entry.session) == owner
                yield CursorWrite(entry.zxid, change.data.decode(), epoch, fenced)


def _follow(version: int, now: int, *, is_new: bool) -> int:
    if not is_new and now != version + 1:
        raise IncompleteHistoryError(
            f"After version {version} of the cursor, version {now} is the next known."
        )
    return now


def regressions(writes: Sequence[CursorWrite]) -> Iterator[str]:
    """Yield a description of each write by which the cursor, or one shard's part of it, goes back."""
    for before, after in pairwise(writes):
        old, new = before.cursor, after.cursor
        where = f"zxid {after.zxid:#x}, epoch {after.epoch}"
        if new.sequence < old.sequence:
            yield f"{where}: the cursor goes back from {old.sequence} to {new.sequence}."
        for shard, position in old.shards.items():
            now = new.shards.get(shard)
            if now is None:
                yield f"{where}: the cursor lost shard {shard}."
                continue
            try:
                back = goes_back(position, now)
            except UsageError as error:
                yield f"{where}: {shard}: {error}"
                continue
            if back:
                yield f"{where}: {shard} goes back from {position} to {now}."


def goes_back(position: Position, now: Position) -> bool:
    """Return whether a shard's position goes back; compare by GTID if another server took over in between.

    Raises:
        UsageError: the two are not comparable.
    """
    if position.server and now.server and position.server != now.server:
        return not now.gtid_set.contains(position.gtid_set)
    return now < position
