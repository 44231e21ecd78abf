"""A hostile reader: its positions are real places with invented numbers, which may not concern anybody else.

Which rows a place has does not depend on these numbers, so what it reads is checked as any reader's is.
"""

from __future__ import annotations

import json

from canal_group.merge.calls.consumers import SubscribeAt
from canal_group.merge.calls.resume import Resume
from canal_group.merge.errors import CanalGroupError, SubscriptionDropped, UsageError
from canal_group.merge.values.offset_range import OffsetRange
from canal_group.merge.values.position import GroupPosition
from canal_group.merge.whole import TIMES_US
from simulation.consumer import RETRY_US
from simulation.range_reader import RangeReader

#: what it invents, and what is refused where it is read
NUMBERS = (0, 1, 1 << 31, 1 << 53, TIMES_US.most)
REFUSED = (1 << 62, (1 << 63) - 1, 1 << 63, 1 << 70, 10**400)


class HostileReader(RangeReader):
    """One reader that goes back as often as it is fickle; it runs for ever."""

    CLIENT_ID = "hostile"
    FICKLE = 0.25

    async def _live(self) -> None:
        while True:
            try:
                await self._subscribe()
                while True:
                    await self._turn()
            except CanalGroupError as error:
                self.note("is refused: {}", error.message)
                await self.sleep(5 * RETRY_US)

    async def _subscribe(self) -> None:
        """Subscribe, at an invented position as soon as it knows any."""
        holder, end = f"{self.name}/{self.incarnation}", self._checkpoint.end
        start = None if end is None else self._invented(end)
        if start is not None:
            self._invariants.moves(self.client_id)
        try:
            self._epoch, cursor = await self._give(
                SubscribeAt(self.client_id, holder, "", start=start, move=start is not None)
            )
        except SubscriptionDropped:
            self._invariants.resumes(self.client_id, Resume.CURSOR)
            self._epoch, cursor = await self._give(
                SubscribeAt(self.client_id, holder, "", resume=Resume.CURSOR)
            )
        if self._checkpoint.begin is None:
            self._checkpoint.begin = cursor

    async def _turn(self) -> None:
        """Read the next range, or one that it has read before, from a position with invented numbers."""
        begun = self._checkpoint.offset_ranges
        back = bool(begun) and self.loop.chance.random() < self.fickle
        start = self.loop.chance.choice(begun)[0] if back else self._checkpoint.end
        assert start is not None, "it is subscribed"
        invented = self._invented(start)
        rows_max, empty = self.loop.chance.randrange(1, 9), self.loop.chance.random() < 0.5
        found = await self._read(OffsetRange(invented or start, rows_max=rows_max, may_be_empty=empty))
        if found is None:
            return
        batch, positions = found
        self._invariants.read_range(self.client_id, start, batch, positions)
        if not back:
            begun.append((start, batch.end, positions))
        await self._ack(batch.batch_id)

    def _invented(self, position: GroupPosition) -> GroupPosition | None:
        """Return a position with other numbers; None if these are refused."""
        value, chance = json.loads(position.to_json()), self.loop.chance
        for shard in value["shards"].values():
            for name in ("key_us", "commit_us"):
                shard[name] = chance.choice(NUMBERS)
        value["retired_key_us"] = chance.choice(NUMBERS if chance.random() < 0.9 else REFUSED)
        try:
            return GroupPosition.from_json(json.dumps(value))
        except UsageError as error:
            self.note("is refused: {}", error.message)
            return None
