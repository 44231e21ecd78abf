"""Event skips: which events of a destination's sources are left out, as operators decided.

An event is left out each time that it is read, so that what is read again is the same. They are kept, up to
`SKIPS_MAX`; beyond, the oldest is forgotten, and a shard that reads it again stops there again.

Only the event is left out at which a shard has stopped. Whoever asks has seen its error, which names it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Self

from canal_group.merge.errors import CanalGroupError, DefinitionContradicted, UsageError
from canal_group.merge.values.skips.skipped_event import SkippedEvent, Unit
from canal_group.merge.whole import whole

#: events of a destination that are kept
SKIPS_MAX: Final = 1_000
#: characters of the name of whoever asked
BY_CHARS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Stop:
    """Where a shard stands, as its group knows it."""

    shard: str
    #: reason of the stop; None: the shard goes on
    error: CanalGroupError | None
    #: identity of the server that is read; empty: not known
    server: str = ""
    #: when its files were created, as far as that is known, seconds since 1970, by name
    created: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, shard: str, error: CanalGroupError | None, server: str, created: Mapping[str, int]) -> Self:
        """Return a stop whose error may name another server than the one that is read now."""
        return cls(
            shard, error, server if error is None else str(error.details.get("server", server)), created
        )

    @property
    def event(self) -> str:
        """The event as "file:offset"; empty if the error is not about an event that can be left out."""
        details = {} if self.error is None else self.error.details
        return f"{details['file']}:{details['offset']}" if details.get("skippable") else ""


@dataclass(frozen=True, slots=True)
class EventSkips:
    """The events that are left out, the oldest first."""

    events: tuple[SkippedEvent, ...] = ()

    def of(self, shard: str) -> tuple[SkippedEvent, ...]:
        """Return those of a shard."""
        return tuple(event for event in self.events if event.shard == shard)

    def asked(
        self, stop: Stop, file: str, offset: int, *, whole_transaction: bool, by: str, at_us: int
    ) -> tuple[EventSkips, SkippedEvent]:
        """Leave the event out at which a shard has stopped; one that is left out already changes nothing.

        Args:
            stop: the shard.
            file: binlog file of the event.
            offset: where it begins there.
            whole_transaction: whether the other rows of its transaction are left out too.
            by: who asks.
            at_us: when, microseconds since 1970 UTC.

        Returns:
            All that is left out, and the event.

        Raises:
            UsageError: the shard has not stopped at that event, or it cannot be left out.
        """
        event = _stopped_at(stop, file, offset)
        skipped = self._skipped(stop, file, offset) if event is None else self._same(event)
        if skipped is not None:
            return self, skipped
        if event is None:
            raise _refused(stop, file, offset)
        assert stop.error is not None, "it has stopped"
        if whole_transaction and stop.error.details.get("handed_over"):
            raise UsageError(
                f"The first rows of the transaction at {file}:{offset} were handed over to consumers: it "
                "cannot be left out as a whole.",
                hint="Without --whole-transaction the event alone is left out.",
            )
        unit = Unit.TRANSACTION if whole_transaction else Unit.EVENT
        event = replace(event, unit=unit, by=by[:BY_CHARS_MAX], at_us=at_us)
        return EventSkips((*self.events, event)[-SKIPS_MAX:]), event

    def _same(self, stopped_at: SkippedEvent) -> SkippedEvent | None:
        """Return the skipped event at which a shard has stopped: it has not been told yet."""
        same = (event for event in self.of(stopped_at.shard) if event.event_key == stopped_at.event_key)
        return next((event for event in same if event.is_of(stopped_at.created_s)), None)

    def _skipped(self, stop: Stop, file: str, offset: int) -> SkippedEvent | None:
        """Return the skipped event at an offset that a shard is past."""
        same = (event for event in self.of(stop.shard) if (event.file, event.offset) == (file, offset))
        ours = (event for event in same if stop.server in ("", event.server))
        return next((event for event in ours if event.is_of(stop.created.get(file, 0))), None)

    def to_json(self) -> str:
        """Return them as JSON text."""
        return json.dumps([event.to_dict() for event in self.events])

    @classmethod
    def from_json(cls, text: str | None) -> EventSkips:
        """Return the value of a text of `to_json`; None: nothing was written.

        Raises:
            KeyError, TypeError, ValueError: it wrote no such text.
        """
        return cls() if not text else cls(tuple(map(SkippedEvent.from_dict, json.loads(text))))


def _stopped_at(stop: Stop, file: str, offset: int) -> SkippedEvent | None:
    """Return the event at which a shard has stopped, if that is where somebody says; else None."""
    details: Mapping[str, object] = {} if stop.error is None else stop.error.details
    if not details.get("skippable") or (details.get("file"), details.get("offset")) != (file, offset):
        return None
    server, created_s, part = details.get("server", ""), details.get("created_s", 0), details.get("part", 0)
    return SkippedEvent(
        stop.shard, str(server), file, whole(created_s), offset, whole(part), Unit.EVENT, "", 0
    )


def _refused(stop: Stop, file: str, offset: int) -> UsageError:
    """Return why no event is left out: the shard stands elsewhere."""
    name, error = stop.shard, stop.error
    if error is None:
        return UsageError(
            f"Shard {name} has not stopped: no event of it is left out.",
            hint="`canal-group status` shows where each shard is. Only the event is left out at which a "
            "shard has stopped.",
        )
    if isinstance(error, DefinitionContradicted):
        return UsageError(
            f"Shard {name} has stopped because its source shows a table otherwise than statements have left "
            "it: no event that is left out mends that.",
            hint=error.hint,
        )
    if not error.details.get("skippable"):
        return UsageError(
            f"Shard {name} has not stopped at an event that can be left out: {error.message}", hint=error.hint
        )
    at = f"{error.details['file']}:{error.details['offset']}"
    return UsageError(
        f"Shard {name} has not stopped at {file}:{offset}, but at {at}: nothing is left out.",
        hint=f"Look at its error again: {error.message}",
    )
