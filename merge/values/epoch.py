"""Epochs: who may still write, and until when the elected server may serve.

An epoch is a whole number that grows with each election. A caller with an older epoch is refused. Each call
passes the time, in seconds of the caller's own monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from canal_group.merge.errors import CoordinatorUnavailable, FencedError


def refuse_older(epoch: int, current_epoch: int, what: str) -> None:
    """Return if `epoch` is the current one or newer.

    Args:
        epoch: epoch of the caller.
        current_epoch: the highest epoch seen so far; 0 none.
        what: what the caller wants to write, for the message, such as "the cursor of client 1001".

    Raises:
        FencedError: `epoch` is older.
    """
    if epoch < current_epoch:
        raise fenced(
            epoch, current_epoch, f"Epoch {epoch} may not write {what}: epoch {current_epoch} owns it."
        )


def fenced(our_epoch: int, current_epoch: int | None, message: str) -> FencedError:
    """Return the error for a caller under `our_epoch`; `current_epoch` is None if it is unknown."""
    return FencedError(
        message,
        hint="Stop serving; a new election decides which server continues.",
        our_epoch=our_epoch,
        current_epoch=current_epoch,
    )


@dataclass(frozen=True, slots=True)
class Tenure:
    """The term of an elected server, and what is known of it since the election.

    Guaranteed: `check` passes only while a session that was alive when the coordinator was last asked cannot
    have expired, and no newer epoch was seen. Once over, a tenure stays over. Not guaranteed: that no other
    server is active at the moment when a delivery arrives. The epoch in every protected write covers that.
    """

    #: fencing epoch that this election gave
    epoch: int
    #: seconds on the holder's clock until which no other server can be elected; grows with every answer
    serves_until_s: float
    #: why the tenure is over, one sentence; empty: the tenure lasts
    over: str = ""
    #: the newest epoch seen; None if the tenure ended before the current epoch was known
    current_epoch: int | None = None

    def confirmed(self, asked_at_s: float, lease_s: float) -> Tenure:
        """Return the tenure after a question asked at `asked_at_s` was answered.

        It lasts `lease_s` seconds from the time of the question. The time of the answer does not count,
        because the answer may have taken long. A late or reordered answer never shortens the tenure.
        """
        if self.over:
            return self
        return replace(self, serves_until_s=max(self.serves_until_s, asked_at_s + lease_s))

    def saw(self, current_epoch: int | None) -> Tenure:
        """Return the tenure after the coordinator's epoch was read; None if the coordinator has none."""
        if current_epoch == self.epoch:
            return self
        if current_epoch is None or current_epoch < self.epoch:
            return replace(
                self.ended("The epoch was removed from the coordinator."), current_epoch=current_epoch
            )
        newer = replace(self, current_epoch=max(current_epoch, self.current_epoch or 0))
        return newer.ended(f"Epoch {current_epoch} was elected after epoch {self.epoch}.")

    def ended(self, why: str) -> Tenure:
        """Return the tenure as over; if it is over already, the first reason stays."""
        return self if self.over else replace(self, over=why)

    def check(self, now_s: float) -> float:
        """Return for how many seconds from `now_s` on the holder may serve.

        Raises:
            CoordinatorUnavailable: no answer for so long that another server may have been elected.
            FencedError: the tenure is over.
        """
        if self.over:
            raise fenced(self.epoch, self.current_epoch, self.over)
        if now_s >= self.serves_until_s:
            raise CoordinatorUnavailable(
                f"The coordinator has not answered in time: epoch {self.epoch} expired "
                f"{now_s - self.serves_until_s:.1f} s ago, and another server may be active.",
                hint="Serving resumes by itself if the coordinator answers before another server is elected.",
                our_epoch=self.epoch,
            )
        return self.serves_until_s - now_s
