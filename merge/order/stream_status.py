"""The stream's state for operators: its shards, and which shard blocks the others, since when and why."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from canal_group.merge.errors import ConfigError, CoordinatorUnavailable
from canal_group.merge.order.shard_keys import Counters
from canal_group.merge.order.shard_state import ShardPhase, ShardState
from canal_group.merge.order.stream import Stream
from canal_group.merge.values.commit_time import END_OF_TIME_US
from canal_group.merge.values.member import Policy, Role


def describe_stream(stream: Stream, at_us: int) -> dict[str, Any]:
    """Return the stream's state as a JSON object.

    Args:
        stream: a stream, whether it merges or not.
        at_us: now, microseconds of the shell's clock.
    """
    timeline = stream.timeline
    watermark_us = timeline.watermark_us if timeline is not None else END_OF_TIME_US
    return {
        "generation": stream.generation,
        "merging": timeline is not None,
        "order": stream.order.describe(timeline),
        "watermark_us": watermark_us if watermark_us != END_OF_TIME_US else None,
        "headers_pending": timeline.pending if timeline is not None else 0,
        "headers_kept": stream.log.tip - stream.log.base,
        **asdict(stream.counters),
        **_held(stream, at_us),
        "retired": stream.membership.retired,
        "cannot_open": _cannot_open(stream),
        "shards": [_shard(stream, index, at_us) for index in range(len(stream.membership.members))],
    }


def _cannot_open(stream: Stream) -> str | None:
    """Return why shards are not opened, if that is not for a source or a shard: this server's store fails."""
    return next((str(state.error) for state in stream.states if _store_fails(state)), None)


def _store_fails(state: ShardState) -> bool:
    return state.opened_at is None and isinstance(state.error, ConfigError | CoordinatorUnavailable)


def _phase(state: ShardState) -> ShardPhase:
    """Return the phase that is shown: that the store keeps a shard from opening is a failure, too."""
    return ShardPhase.FAILED if _store_fails(state) else state.phase


def _held(stream: Stream, at_us: int) -> dict[str, Any]:
    """Return which shard blocks the group, since when and why; None for each if none does."""
    timeline = stream.timeline
    members, orphans = stream.membership.members, stream.membership.orphans
    if orphans:
        since_us = min((state.since_us for state in stream.states), default=at_us)
        return _holder(orphans[0], at_us - since_us, "the cursors hold it, the settings do not")
    if timeline is None:
        held = next(
            (
                index
                for index, member in enumerate(members)
                if member.counted and stream.states[index].opened_at is None
            ),
            None,
        )
    else:
        held = timeline.held_by()
    if held is None:
        return {"held_by": None, "held_since_s": None, "held_why": None}
    state = stream.states[held]
    return _holder(stream.shards[held], at_us - state.moved_us, _why(stream, held))


def _holder(name: str, since_us: int, why: str) -> dict[str, Any]:
    return {"held_by": name, "held_since_s": since_us / 1e6, "held_why": why}


def _why(stream: Stream, shard: int) -> str:
    state, member, timeline = stream.states[shard], stream.membership.members[shard], stream.timeline
    policy = ", and an operator holds the group for it" if member.policy is Policy.HOLD else ""
    if _phase(state) is ShardPhase.FAILED:
        return f"it stopped: {state.error}{policy}"
    if state.opened_at is None:
        why = f" ({state.error})" if state.error is not None else ""
        return f"it has not reported its position yet{why}{policy}"
    if state.full_since_us is not None:
        return f"its ring is full{policy}"
    if timeline is not None and timeline.open_shard == shard:
        return f"only a part of its transaction has arrived{policy}"
    withheld_s = stream.order.commit_times.replica_lag_max_us / 1e6
    lags = f" (that of an idle replica is {withheld_s:g} s behind)" if withheld_s else ""
    return f"it has reported no newer low watermark{lags}{policy}"


def _shard(stream: Stream, index: int, at_us: int) -> dict[str, Any]:
    state, member, timeline = stream.states[index], stream.membership.members[index], stream.timeline
    known = timeline is not None and member.role is not Role.LEFT
    position = stream.base.ack.shards.get(member.name) if timeline is not None else None
    counters = timeline.counters_of(index) if timeline is not None else Counters()
    frontier_us = timeline.frontier_us(index) if timeline is not None and known else END_OF_TIME_US
    given_s = (at_us - member.policy_since_us) / 1e6
    return {
        "shard": member.name,
        "index": index,
        "role": member.role.value,
        "catching_up": member.catching_up,
        "policy": member.policy.value if member.policy is not Policy.RESUME else None,
        "policy_since_s": given_s if member.policy is not Policy.RESUME else None,
        "state": _phase(state).value if member.role is not Role.LEFT else Role.LEFT.value,
        "state_since_s": (at_us - state.since_us) / 1e6,
        "frontier_us": frontier_us if frontier_us != END_OF_TIME_US else None,
        "frontier_still_s": (at_us - state.moved_us) / 1e6,
        "skipped": timeline.excluded(index) if timeline is not None and known else False,
        **asdict(counters),
        "acked_position": str(position) if position is not None else None,
        "error": str(state.error) if state.error is not None else state.reason or None,
    }
