"""Full rings: which shards bring nothing because their rings are full, and for which client ids they are."""

from __future__ import annotations

import shlex
from typing import Any, Final

from canal_group.merge.delivery.phase import Phase
from canal_group.merge.delivery.subscriber import Subscriber
from canal_group.merge.delivery.subscribers import Subscribers
from canal_group.merge.duration import duration
from canal_group.merge.order.stream import Stream

#: how long nothing of a full ring must have been freed to be told, microseconds; with less a consumer is
#: slower than the source, and goes on
TOLD_AFTER_US: Final = 5_000_000
#: client ids that a sentence names
_NAMED_MAX: Final = 3


def full_rings(
    destination: str, stream: Stream, subscribers: Subscribers, at_us: int
) -> list[dict[str, Any]]:
    """Return a JSON object for each shard that waits for room in its ring.

    Each has the `shard`, the `clients` for which its oldest rows are kept, `since_s`, how long nothing of it
    was freed, and `why`, a sentence with what to do about it.

    Args:
        destination: its name, for the commands.
        stream: a stream, whether it merges or not.
        subscribers: those of the stream.
        at_us: now, microseconds of the shell's clock.
    """
    found: list[dict[str, Any]] = []
    for index, state in enumerate(stream.states):
        since_us = state.full_since_us
        if since_us is None or at_us - since_us < TOLD_AFTER_US:
            continue
        first = stream.first_kept(index)
        keepers = [] if first is None else _keepers(subscribers, first)
        why = _not_merged(stream) if first is None else _kept_for(destination, keepers, at_us)
        found.append(
            {
                "shard": stream.shards[index],
                "clients": [keeper.client_id for keeper in keepers],
                "since_s": (at_us - since_us) / 1e6,
                "why": f"{stream.shards[index]} waits: ring full, {why}",
            }
        )
    return found


def _keepers(subscribers: Subscribers, index: int) -> list[Subscriber]:
    """Return the subscribers for which a header of the log is kept."""
    if not subscribers.holding:
        return []
    return [
        each
        for each in subscribers.all
        if each.kept and (each.phase is not Phase.READING or each.delivery.done <= index)
    ]


def _not_merged(stream: Stream) -> str:
    held_by = None if stream.timeline is None else stream.timeline.held_by()
    if held_by is None:
        return "its transactions are not merged yet"
    return f"its transactions wait for shard {stream.shards[held_by]}"


def _kept_for(destination: str, keepers: list[Subscriber], at_us: int) -> str:
    if not keepers:
        return "kept for the first client id: none holds rows; have a consumer subscribe and acknowledge"
    named = [f"client {each.client_id} ({_how(each, at_us)})" for each in keepers[:_NAMED_MAX]]
    more = [f"{len(keepers) - _NAMED_MAX} more"] if len(keepers) > _NAMED_MAX else []
    commands = [_command(destination, each) for each in keepers[:_NAMED_MAX]]
    return f"kept for {', '.join([*named, *more])}; {'; '.join(commands)}"


def _how(subscriber: Subscriber, at_us: int) -> str:
    if not subscriber.lease.holder:
        return f"no consumer for {duration((at_us - subscriber.lease.seen_us) / 1e6)}"
    holder = f"{'a look of' if subscriber.look else 'consumer'} {subscriber.lease.holder}"
    oldest = subscriber.delivery.ledger.describe(at_us)[:1]
    if oldest:
        return f"{holder}, a batch not acknowledged for {duration(oldest[0]['age_s'])}"
    return f"{holder}, no get for {duration((at_us - subscriber.read_us) / 1e6)}"


def _command(destination: str, subscriber: Subscriber) -> str:
    """Return the command that goes on without a subscriber; a consumer prevents a removal."""
    verb = "set-aside" if subscriber.lease.holder else "remove"
    return shlex.join(["canal-group", "client", verb, "-d", destination, subscriber.client_id])
