"""Membership: which shards belong to a group, which are joining or leaving, and which have left.

A shard's index and name are given once, see `member`. The cursors record which shards there were and which
have left. After a restart they tell which shards are new.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from canal_group.merge.errors import UsageError
from canal_group.merge.values.member import Member, Role
from canal_group.merge.values.position import MEMBERS_MAX, GroupPosition, Position


class Membership:
    """Knows the shards of a group.

    Args:
        shards: names by shard_index.
    """

    def __init__(self, shards: tuple[str, ...]) -> None:
        #: names by shard_index, including shards that are joining or have left
        self.shards = shards
        #: by shard_index
        self.members = [Member(name) for name in shards]
        #: shards that the cursors hold and the settings lack
        self.orphans: tuple[str, ...] = ()
        #: positions at which shards joined a running stream, by name
        self.joined: dict[str, Position] = {}
        self._retired: set[str] = set()

    @property
    def retired(self) -> list[str]:
        """Names of the shards that have left, sorted."""
        return sorted(self._retired)

    @property
    def signature(self) -> tuple[object, ...]:
        """What changes when a shard has joined or left, or when the group is told whether to wait for one."""
        known = (member for member in self.members if member.role is not Role.JOINING)
        shards = tuple((member.name, member.role is Role.LEFT, member.policy) for member in known)
        return (shards, tuple(self.joined), self.orphans)

    @property
    def settled(self) -> bool:
        """Whether the positions of all shards are known to the cursors."""
        return not self.orphans and not any(member.role is Role.JOINING for member in self.members)

    def take(self, other: Membership) -> None:
        """Take over another membership; shards leaving there are members here."""
        self.shards = other.shards
        self.members[:] = [
            Member(
                member.name,
                Role.LEFT if member.role is Role.LEFT else Role.MEMBER,
                member.policy,
                member.policy_since_us,
                member.start,
            )
            for member in other.members
        ]
        self.joined, self._retired = dict(other.joined), set(other.retired)

    def index_of(self, name: str) -> int:
        """Return the shard_index of a shard that has not left.

        Raises:
            UsageError: there is no shard of this name.
        """
        for index, member in enumerate(self.members):
            if member.name == name and member.role is not Role.LEFT:
                return index
        known = ", ".join(member.name for member in self.members if member.role is not Role.LEFT)
        raise UsageError(f"There is no shard {name}.", hint=f"The shards are {known}.")

    def last_but(self, shard: int) -> bool:
        """Return whether this shard is the only member; a joining shard has no position in cursors yet."""
        return not any(
            member.role is Role.MEMBER for index, member in enumerate(self.members) if index != shard
        )

    def take_roles(self, cursors: Sequence[GroupPosition], known: Iterable[str]) -> None:
        """Take from the cursors which shards have left, which are new, and which the settings lack.

        Args:
            cursors: of all subscribers.
            known: names of shards that the stream knows, besides those in the cursors.
        """
        known = {name for cursor in cursors for name in cursor.shards} | set(known)
        self._retired.update(*(cursor.retired for cursor in cursors))
        for cursor in cursors:
            self.joined |= {
                name: position for name, position in cursor.joined.items() if name not in self._retired
            }
        self.orphans = tuple(sorted(known - set(self.shards) - self._retired))
        anybody = any(member.name in known for member in self.members)
        for member in self.members:
            if member.name in self._retired:
                member.role = Role.LEFT
            elif member.role is not Role.LEAVING:
                # If the cursors know none of the shards, all shards start together as members.
                new = anybody and member.name not in known
                member.role = Role.JOINING if new else Role.MEMBER
                member.catching_up = anybody and (member.catching_up or new)

    def check_name(self, name: str) -> None:
        """Return if a shard of this name can be added.

        Raises:
            UsageError: the name is in use, or was used before.
        """
        if name in self._retired or name in self.shards:
            left = name in self._retired
            raise UsageError(
                f"The name {name} belongs to a shard that {'left' if left else 'is there'}.",
                hint="A name is never reused, so that rows and cursors stay unambiguous. Choose another.",
                shard=name,
            )

    def add(self, name: str, start: Position | None) -> int:
        """Add a shard under the next index and return that index; it joins when it is opened.

        Raises:
            UsageError: the name is in use or was used before, or no index is left. Nothing was changed.
        """
        self.check_name(name)
        if len(self.members) == MEMBERS_MAX:
            raise UsageError(
                f"No more than {MEMBERS_MAX} shards fit into one group.",
                hint="Shards that left count until the server restarts.",
            )
        self.shards = (*self.shards, name)
        # A shard that the cursors hold was a member before, so the others wait for it at once.
        catching_up = name not in self.orphans
        self.members.append(Member(name, Role.JOINING, start=start, catching_up=catching_up))
        return len(self.members) - 1

    def leave(self, name: str) -> int | None:
        """Remove a shard or an orphan from the group; return its index, None for an orphan."""
        self._retired.add(name)
        self.joined.pop(name, None)
        self.orphans = tuple(orphan for orphan in self.orphans if orphan != name)
        for index, member in enumerate(self.members):
            if member.name == name:
                member.role = Role.LEFT
                return index
        return None

    def with_joined(self, cursor: GroupPosition) -> GroupPosition:
        """Return a cursor that has, for each shard that it does not know, the position where that joined."""
        lacking = {name: self.joined[name] for name in self.joined.keys() - cursor.shards.keys()}
        return replace(cursor, shards={**cursor.shards, **lacking}) if lacking else cursor

    def said(self, position: GroupPosition) -> GroupPosition:
        """Return a position from a client, without what it says about membership of the group.

        Raises:
            UsageError: it names a shard that the group does not have and never had.
        """
        unknown = position.shards.keys() - {*self.shards, *self.orphans} - self._retired
        if unknown:
            raise UsageError(
                f"{', '.join(sorted(unknown))}: no such shard in the group.",
                hint="The shard was removed from the instance, or the position belongs to another instance.",
            )
        retired = tuple(name for name in position.retired if name in self._retired)
        return replace(position, retired=retired, joined={})

    def without_retired(self, cursor: GroupPosition) -> GroupPosition:
        """Return a cursor without the shards that have left; it lists them as retired."""
        return cursor.without(self._retired) if self._retired else cursor
