"""A look: reads what comes, acknowledges nothing, and leaves nothing, however it ends."""

from __future__ import annotations

from canal_group.merge.calls.batch import Batch
from canal_group.merge.calls.consumers import Get, Release, SubscribeAt
from canal_group.merge.errors import CanalGroupError, NotSubscribed, RetryableError, RolledBack
from simulation.consumer import GET_US, RETRY_US, Consumer


class Looker(Consumer):
    """The process that looks; it is killed as any other, and pauses while it holds what it has got."""

    async def _subscribe(self) -> None:
        holder = f"{self.name}/{self.incarnation}"
        self._epoch = 0
        self._epoch, _ = await self._give(SubscribeAt(self.client_id, holder, "", look=True))
        self._seen_id = 0
        self.note("looks under epoch {}", self._epoch)

    async def _turn(self) -> None:
        try:
            rows_max = self.loop.chance.randrange(1, 9)
            batch: Batch | None = await self._give(
                Get(self.client_id, self._epoch, rows_max, GET_US / 1e6, self._seen_id)
            )
            if batch is not None:
                self._seen_id = batch.batch_id
                await self._ask("rows", self.client_id, self._epoch, batch.batch_id)
        except (RolledBack, RetryableError):
            await self.sleep(RETRY_US)
        except CanalGroupError as error:
            raise NotSubscribed("It ends.") from error
        chance = self.loop.chance.random()
        if chance < 0.1:
            # As one whose output is paused: it stands in the way of nobody for longer than a lease.
            await self.sleep(40 * RETRY_US)
        elif chance < 0.2:
            await self._give(Release(self.client_id, self._epoch))
            raise NotSubscribed("It has seen enough.")
