"""The group: the state machine that turns shards' headers into acknowledged batches.

One mutation door: `handle(event)` returns what has to be done. `merge.stream` knows the shards and merges
them, `merge.consumers` knows the subscribers and serves them; here the two meet. Rules:

1. There is one recovery: a *rewind*. Whenever a ring is lost, everything that is not acknowledged is
   forgotten and every shard is opened again at the oldest cursor, under a new generation.
2. A refused request changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import singledispatchmethod
from typing import Any

from merge.consumers import Consumers
from merge.errors import CanalGroupError
from merge.events import (
    ConsumerLeased,
    Event,
    Instruction,
    Refuse,
    ShardFailed,
    ShardLost,
    ShardOpened,
    ShardReported,
    Started,
    Ticked,
)
from merge.stream import Stream
from merge.subscriber import BatchLimits


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """What a group is made of."""

    destination: str
    #: names by shard_index
    shards: tuple[str, ...]
    limits: BatchLimits = field(default_factory=BatchLimits)
    #: how long a consumer may be silent before its client id is free again
    lease_us: int = 10_000_000
    #: go on without a shard that is silent for longer; None: wait for ever
    skip_after_us: int | None = None


class Group:
    """Merges shards and serves subscribers; see the module's rules.

    Args:
        settings: what the group is made of.
        epoch: fencing epoch of the server that runs it.
    """

    def __init__(self, settings: GroupSettings, epoch: int) -> None:
        self.settings = settings
        self.epoch = epoch
        self._stream = Stream(settings.shards, settings.skip_after_us)
        self._consumers = Consumers(
            settings.destination, epoch, settings.limits, settings.lease_us, self._stream
        )

    @property
    def generation(self) -> int:
        """Grows with each rewind."""
        return self._stream.generation

    def handle(self, event: Event) -> list[Instruction]:
        """Take an event and return what has to be done, in order."""
        try:
            return self._on(event)
        except CanalGroupError as error:
            call = getattr(event, "call", None)
            if call is None:
                raise
            return [Refuse(call, error)]

    @singledispatchmethod
    def _on(self, event: Event) -> list[Instruction]:
        return self._consumers.handle(event)

    @_on.register
    def _(self, event: Started) -> list[Instruction]:
        self._consumers.restore(event.consumers, event.at_us)
        return self._rewind(event.at_us)

    @_on.register
    def _(self, event: ShardOpened) -> list[Instruction]:
        was_merging = self._stream.merging
        self._stream.opened(event)
        return self._went_on(was_merging)

    @_on.register
    def _(self, event: ShardReported) -> list[Instruction]:
        was_merging = self._stream.merging
        self._stream.reported(event)
        return self._went_on(was_merging)

    @_on.register
    def _(self, event: ShardFailed) -> list[Instruction]:
        self._stream.failed(event)
        return []

    @_on.register
    def _(self, event: ShardLost) -> list[Instruction]:
        if event.generation != self.generation:
            return []
        instructions = self._rewind(event.at_us)
        self._stream.note_loss(event.shard, event.reason)
        return instructions

    @_on.register
    def _(self, event: ConsumerLeased) -> list[Instruction]:
        instructions = self._consumers.handle(event)
        if self._stream.merging and not self._consumers.all_placed:
            # The log begins inside a huge transaction, of which the newcomer must not miss the beginning.
            instructions += self._rewind(event.at_us)
        return instructions

    @_on.register
    def _(self, event: Ticked) -> list[Instruction]:
        released = self._consumers.release_silent(event.at_us)
        was_merging = self._stream.merging
        self._stream.skip_silent(event.at_us)
        return [*released, *self._consumers.save_again(), *self._went_on(was_merging)]

    def _rewind(self, at_us: int) -> list[Instruction]:
        """Forget what is not acknowledged and open every shard at the oldest cursor."""
        opening = self._stream.rewind(self._consumers.cursors, at_us)
        return [*self._consumers.rewind(), *opening]

    def _went_on(self, was_merging: bool) -> list[Instruction]:
        """Tell the consumers what may be new in the stream."""
        placed = self._consumers.place() if self._stream.merging and not was_merging else []
        return [*placed, *self._consumers.serve()]

    def describe(self, at_us: int) -> dict[str, Any]:
        """Return the group's state as a JSON object: shards, who holds the group, subscribers."""
        return {
            "destination": self.settings.destination,
            "epoch": self.epoch,
            **self._stream.describe(at_us),
            "clients": self._consumers.describe(),
        }
