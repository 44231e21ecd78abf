"""Epochs: who may still write, and until when somebody may still serve.

An epoch is a whole number that grows with each election, for ever. Whoever shows an older one is refused. The
time comes in with each call, in seconds on the caller's own monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from merge.errors import CoordinatorUnavailable, FencedError


def refuse_older(epoch: int, current_epoch: int, what: str) -> None:
    """Return if `epoch` is the current one or newer.

    Args:
        epoch: the epoch of whoever wants to act.
        current_epoch: the highest epoch seen so far; 0 none.
        what: what is refused, for people, such as "the cursor of client 1001".

    Raises:
        FencedError: `epoch` is older.
    """
    if epoch < current_epoch:
        raise fenced(
            epoch, current_epoch, f"Epoch {epoch} may not write {what}: epoch {current_epoch} owns it."
        )


def fenced(our_epoch: int, current_epoch: int | None, message: str) -> FencedError:
    """Return the error for whoever acts under `our_epoch`; `current_epoch` is None while nobody knows it."""
    return FencedError(
        message,
        hint="Stop serving; a new election decides who goes on.",
        our_epoch=our_epoch,
        current_epoch=current_epoch,
    )


@dataclass(frozen=True, slots=True)
class Tenure:
    """One election's win, and what is known of it since.

    Guarantees: `check` passes only while no session could have expired that was alive when the coordinator
    was last asked, and no newer epoch was seen. Once over, a tenure stays over. Does not guarantee that
    nobody else is active at the moment a delivery arrives: that is what the epoch in every protected write is
    for.
    """

    #: fencing epoch that this election gave
    epoch: int
    #: seconds on the holder's clock until which nobody else can have been elected; grows with every answer
    serves_until_s: float
    #: why this tenure is over, one sentence; empty while it lasts
    over: str = ""
    #: the newest epoch seen; None when the tenure ended before anybody said it
    current_epoch: int | None = None

    def confirmed(self, asked_at_s: float, lease_s: float) -> Tenure:
        """Return the tenure after a question asked at `asked_at_s` was answered.

        It lasts `lease_s` seconds from the asking. The time of asking counts, not that of the answer, which
        may have been long on its way. An answer that comes late or out of order never shortens what is known.
        """
        if self.over:
            return self
        return replace(self, serves_until_s=max(self.serves_until_s, asked_at_s + lease_s))

    def saw(self, current_epoch: int | None) -> Tenure:
        """Return the tenure after the coordinator's epoch was read; None: it is gone."""
        if current_epoch == self.epoch:
            return self
        if current_epoch is None or current_epoch < self.epoch:
            return replace(
                self.ended("The epoch was removed from the coordinator."), current_epoch=current_epoch
            )
        newer = replace(self, current_epoch=max(current_epoch, self.current_epoch or 0))
        return newer.ended(f"Epoch {current_epoch} was elected after epoch {self.epoch}.")

    def ended(self, why: str) -> Tenure:
        """Return the tenure as over, for good; the first reason stays."""
        return self if self.over else replace(self, over=why)

    def check(self, now_s: float) -> float:
        """Return for how many seconds from `now_s` on the holder may serve.

        Raises:
            CoordinatorUnavailable: no answer for so long that somebody else may have been elected.
            FencedError: the tenure is over.
        """
        if self.over:
            raise fenced(self.epoch, self.current_epoch, self.over)
        if now_s >= self.serves_until_s:
            raise CoordinatorUnavailable(
                f"The coordinator has not answered in time: epoch {self.epoch} ran out "
                f"{now_s - self.serves_until_s:.1f} s ago, and somebody else may be active.",
                hint="Serving goes on by itself if it answers before another server is elected.",
                our_epoch=self.epoch,
            )
        return self.serves_until_s - now_s
