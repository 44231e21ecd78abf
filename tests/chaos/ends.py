"""The end of a stream: after the last fault, everything must be acknowledged within a deadline."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from chaos.clocks import S_US
from chaos.commits import Commits
from chaos.lateness import Arrival

#: how long the last transactions may take, microseconds: sessions end, servers start, sources are read again
END_US: Final = 75 * S_US
#: likewise in times of the start, where that is more: on a machine that starts everything slowly
_STARTS: Final = 2.5


@dataclass(frozen=True, slots=True)
class End:
    """When the last disturbance ended, and the deadline of all acknowledgements; microseconds since 1970."""

    #: the last fault had ended, and the last writer had finished
    quiet_us: int
    until_us: int

    @classmethod
    def after(cls, quiet_us: int, furthest_us: int, start_s: float = 0.0) -> End:
        """Return the end of a stream.

        Args:
            quiet_us: see the class.
            furthest_us: its greatest stamp, which all clocks must reach.
            start_s: how long the start of all processes took, seconds.
        """
        end_us = max(END_US, int(start_s * _STARTS * S_US))
        return cls(quiet_us, max(quiet_us, furthest_us) + end_us)


def stalls(
    client_id: str, arrivals: Sequence[Arrival], records: Collection[Commits], end: End
) -> Iterator[str]:
    """Yield for each shard what a client id had not acknowledged by the deadline."""
    acked = {(one.shard, one.gtid): one.acked_us for one in arrivals}
    last_us = max((one.acked_us for one in arrivals if one.acked_us <= end.until_us), default=0)
    for record in records:
        missed = [
            commit.gtid
            for commit in record.commits
            if commit.kept and acked.get((record.shard, commit.gtid), end.until_us + 1) > end.until_us
        ]
        if missed:
            allowed_s = (end.until_us - end.quiet_us) / S_US
            since = f"{(last_us - end.quiet_us) / S_US:+.1f} s" if last_us else "never"
            yield (
                f"Client {client_id} stalls: {len(missed)} transactions of {record.shard} from {missed[0]} on"
                f" were not acknowledged within {allowed_s:.0f} s of the end;"
                f" its last acknowledgement, from there: {since}."
            )
