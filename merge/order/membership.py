"""Membership: the shards of a group, who belongs to it, who is to, and who left.

A shard's index and name are given once, see `member`. The cursors remember who left, and which shards there
were: after a restart they say who is new.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from merge.errors import UsageError
from merge.values.member import MEMBERS_MAX, Member, Role
from merge.values.position import GroupPosition, Position


class Membership:
    """Knows the shards of a group.

    Args:
        shards: names by shard_index.
    """

    def __init__(self, shards: tuple[str, ...]) -> None:
        #: names by shard_index, those of shards that join or left included
        self.shards = shards
        #: by shard_index
        self.members = [Member(name) for name in shards]
        #: shards that the cursors hold and that are none of ours
        self.orphans: tuple[str, ...] = ()
        #: where the members joined that joined a stream which went on
        self.joined: dict[str, Position] = {}
        self._retired: set[str] = set()

    @property
    def retired(self) -> list[str]:
        """Names of the shards that left, sorted."""
        return sorted(self._retired)

    def index_of(self, name: str) -> int:
        """Return the shard_index of a shard that has not left.

        Raises:
            UsageError: there is none of this name.
        """
        for index, member in enumerate(self.members):
            if member.name == name and member.role is not Role.LEFT:
                return index
        known = ", ".join(member.name for member in self.members if member.role is not Role.LEFT)
        raise UsageError(f"There is no shard {name}.", hint=f"The shards are {known}.")

    def last_but(self, shard: int) -> bool:
        """Return whether no member is left without this shard: one that joins has no place in cursors yet."""
        return not any(
            member.role is Role.MEMBER for index, member in enumerate(self.members) if index != shard
        )

    def take_roles(self, cursors: Sequence[GroupPosition], known: Iterable[str]) -> None:
        """Go by what the cursors say: who left, who is new, and whom the settings lack.

        Args:
            cursors: of all subscribers.
            known: names of shards that the stream knows beside those in the cursors.
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
                # Where no cursor knows anybody, all begin together.
                new = anybody and member.name not in known
                member.role = Role.JOINING if new else Role.MEMBER
                member.catching_up = anybody and (member.catching_up or new)

    def check_name(self, name: str) -> None:
        """Return if a shard of this name can be added.

        Raises:
            UsageError: the name is taken, or was.
        """
        if name in self._retired or name in self.shards:
            left = name in self._retired
            raise UsageError(
                f"The name {name} belongs to a shard that {'left' if left else 'is there'}.",
                hint="A name is given once, so that rows and cursors stay unambiguous: choose another one.",
                shard=name,
            )

    def add(self, name: str, start: Position | None) -> int:
        """Enter a shard, with the next index; it joins when it is opened.

        Raises:
            UsageError: the name is taken, or was; or there is no index left. Nothing was changed.
        """
        self.check_name(name)
        if len(self.members) == MEMBERS_MAX:
            raise UsageError(
                f"No more than {MEMBERS_MAX} shards can be known.",
                hint="Those that left are counted until the server's next start.",
            )
        self.shards = (*self.shards, name)
        # One that the cursors hold is put back: it has been waited for before.
        catching_up = name not in self.orphans
        self.members.append(Member(name, Role.JOINING, start=start, catching_up=catching_up))
        return len(self.members) - 1

    def leave(self, name: str) -> int | None:
        """Let a shard go, or an orphan; return its index, None if it has none."""
        self._retired.add(name)
        self.joined.pop(name, None)
        self.orphans = tuple(orphan for orphan in self.orphans if orphan != name)
        for index, member in enumerate(self.members):
            if member.name == name:
                member.role = Role.LEFT
                return index
        return None

    def with_joined(self, cursor: GroupPosition) -> GroupPosition:
        """Return a cursor that stands, in each shard that it does not know, where that joined."""
        lacking = {name: self.joined[name] for name in self.joined.keys() - cursor.shards.keys()}
        return replace(cursor, shards={**cursor.shards, **lacking}) if lacking else cursor

    def said(self, position: GroupPosition) -> GroupPosition:
        """Return a position that a client says, without what it says of who belongs to the group.

        Raises:
            UsageError: it has a shard that there is not, and never was.
        """
        unknown = position.shards.keys() - {*self.shards, *self.orphans} - self._retired
        if unknown:
            raise UsageError(
                f"{', '.join(sorted(unknown))}: no such shard in the group.",
                hint="A shard was taken out of the instance, or the position is of another one.",
            )
        retired = tuple(name for name in position.retired if name in self._retired)
        return replace(position, retired=retired, joined={})

    def without_retired(self, cursor: GroupPosition) -> GroupPosition:
        """Return a cursor that remembers who left, and does not hold them."""
        return cursor.without(self._retired) if self._retired else cursor
