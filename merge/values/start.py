"""Starts: where a client id without a cursor begins, in the words that every interface takes.

- `earliest`: the oldest change that each source still has.
- `latest`: what is committed from now on.
- `2026-01-31T12:00:00+01:00`: the first transaction of each shard that was committed at or after this time.
- `-2h`: the same, so long before now, in s, m, h or d.
- `{"shards": ...}`: a group position, as cursors and offsets are written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, TypeAlias

from merge.errors import ConfigError
from merge.values.position import GroupPosition

_RELATIVE = re.compile(r"-(\d{1,9})([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_EXPECTED = (
    "Expected earliest, latest, a time with its zone such as 2026-01-31T12:00:00Z, a time before now such as "
    "-2h, or a group position."
)


@dataclass(frozen=True, slots=True)
class At:
    """The first transaction of each shard that was committed at or after a time."""

    #: microseconds since 1970 UTC
    time_us: int


Start: TypeAlias = Literal["earliest", "latest"] | At | GroupPosition


def time_of(text: str, now_us: int) -> int | None:
    """Return the time that a text says, microseconds since 1970 UTC; None if it says none.

    Args:
        text: an ISO 8601 time with its zone, or a time before now such as `-2h`.
        now_us: what it is relative to, microseconds since 1970 UTC.
    """
    relative = _RELATIVE.fullmatch(text)
    if relative is not None:
        return now_us - int(relative[1]) * _SECONDS[relative[2]] * 1_000_000
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        return None
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def parse_start(text: str, now_us: int) -> Start:
    """Return the start that a text says; see the module.

    Raises:
        ConfigError: it says none, or a time in the future.
    """
    if text in ("earliest", "latest"):
        return "earliest" if text == "earliest" else "latest"
    if text.startswith("{"):
        return GroupPosition.from_json(text)
    time_us = time_of(text, now_us)
    if time_us is None:
        zoneless = time_of(f"{text}Z", now_us) is not None
        raise ConfigError(
            f"{text!r} is a time without a zone." if zoneless else f"{text!r} is not a start.", hint=_EXPECTED
        )
    if time_us > now_us:
        raise ConfigError(f"The start {text} is in the future.", hint="Say latest to begin now.")
    return At(max(0, time_us))
