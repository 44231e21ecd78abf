"""Ports: what the group and its shards need of the world, whoever provides it.

`actors.coordination` and `actors.meta` hold the adapters of coordinator and cursor store, whose calls block:
the group makes them by `Host.blocking`. `actors.process.host` is the host. A shard's ports are in
`actors.shard.ports`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import NoReturn, Protocol, TypeVar

from canal_group.zookeeper.stop_mark import StopMark
from merge.values.position import GroupPosition

_T = TypeVar("_T")


class Lock(Protocol):
    """Lets one thread in at a time."""

    def __enter__(self) -> bool:
        """Wait until nobody else is in."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Let the next one in."""


class Condition(Protocol):
    """Lets threads wait under a lock that they hold, until one of them says that something changed."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait so many seconds to be notified; return whether that happened."""

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait so many seconds until `predicate` holds; return whether it does."""

    def notify_all(self) -> None:
        """Wake everybody who waits."""


class ThreadEvent(Protocol):
    """A flag that threads wait for."""

    def is_set(self) -> bool:
        """Return whether it is set."""

    def set(self) -> None:
        """Set it and wake everybody who waits."""

    def clear(self) -> None:
        """Take it back."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait so many seconds until it is set; return whether it is."""


class Thread(Protocol):
    """A thread that runs."""

    def join(self, timeout: float | None = None) -> None:
        """Wait so many seconds until it has ended."""


class Host(Protocol):
    """The machine that a process runs on."""

    def now_us(self) -> int:
        """Return microseconds on the clock that the group's events carry; it never steps back."""

    def clock_s(self) -> float:
        """Return seconds on the clock of what must not act late; it never steps back."""

    def lock(self) -> Lock:
        """Return a lock that is free."""

    def condition(self, lock: Lock) -> Condition:
        """Return a condition under a lock that `lock` made."""

    def event(self) -> ThreadEvent:
        """Return an event that is not set."""

    def start(self, run: Callable[[], None], name: str) -> Thread:
        """Run `run` on a thread of its own, which does not keep the process from ending."""

    async def blocking(self, run: Callable[..., _T], *arguments: object) -> _T:
        """Return what `run` returns, which blocks a thread and not the loop."""

    def end(self) -> NoReturn:
        """End the process at once; whoever started it starts it again."""


@dataclass(frozen=True, slots=True)
class ConsumerLease:
    """Who holds a client id, as far as the coordinator remembers."""

    client_id: str
    #: name of the holder for people: host, process, whatever it called itself
    holder: str
    #: fencing epoch of the holder; every call of the consumer carries it
    epoch: int
    #: the ZooKeeper session by which the holder keeps its running node itself, as `hex` writes it; empty: the
    #: server keeps the node for it
    session: str = ""


class Coordinator(Protocol):
    """Who is active: one server for a destination, one consumer for a client id."""

    def campaign(self) -> int:
        """Wait until this server is the active one of its destination and return its fencing epoch.

        Epochs grow with each election, for ever.
        """

    def check_active(self) -> float:
        """Return for how many seconds this server can know that it is the active one.

        Cheap: asks no server. Called before every delivery.

        Raises:
            CoordinatorUnavailable: cut off for so long that somebody else may be active.
            FencedError: somebody else is.
        """

    def stop_mark(self) -> StopMark | None:
        """Return an operator's mark that nobody shall serve the destination; None: there is none.

        Cheap, as `check_active`. While the mark stands, `campaign` waits.
        """

    def release_asked(self) -> bool:
        """Return whether an operator wants another server to be active; `resign` lets that happen.

        Cheap, as `check_active`.
        """

    def active_address(self) -> str:
        """Return "host:port" of the active server as it was last seen; empty: none, or unknown."""

    def lease_consumer(self, client_id: str, holder: str, session: str = "") -> ConsumerLease:
        """Make `holder` the active consumer of `client_id`, with a new and higher epoch.

        The caller has made sure that no other consumer is alive. With `session`, the consumer keeps its
        running node itself, by that session.
        """

    def keep_consumer(self, client_id: str, holder: str) -> None:
        """Keep the running node of a consumer that an earlier server leased to, unless somebody keeps it."""

    def gone_consumer(self, client_id: str, session: str) -> ConsumerLease | None:
        """Return the last holder if it is known to be gone: the node that it kept is now that of `session`.

        Raises:
            ConsumerActive: the running node does not belong to `session`.
        """

    def release_consumer(self, client_id: str, session: str = "") -> None:
        """Take away the running node that the server, or the consumer's `session`, keeps; its epoch stays."""

    def consumers(self) -> list[ConsumerLease]:
        """Return the last holder of each client id, with its epoch, as it is remembered across restarts."""

    def resign(self) -> None:
        """Give up activity in good order: the next server can take over at once. May campaign again."""

    def close(self) -> None:
        """Give up activity in good order, for good."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A client id's durable state."""

    client_id: str
    #: canal's comma-separated regular expressions on `schema.table`; empty: everything
    filter: str
    #: None until the first position is known
    cursor: GroupPosition | None
    #: whether it was away for too long, and its rows are not held
    dropped: bool = False


class CursorStore(Protocol):
    """Cursors and subscriptions of one destination, durable as far as the adapter's name promises."""

    def claim(self, epoch: int) -> None:
        """Take note that `epoch` is the server's current one; older ones can write no more.

        Raises:
            FencedError: a newer epoch has been seen.
            CoordinatorUnavailable: it is unknown.
        """

    def load(self) -> list[Subscription]:
        """Return every subscription."""

    def save(self, subscription: Subscription, epoch: int) -> None:
        """Write a subscription atomically, if `epoch` is still the server's current one.

        Raises:
            FencedError: a newer epoch has been seen; nothing was written.
            CoordinatorUnavailable: it is unknown whether it was written; saving it again is harmless.
        """

    def forget(self, client_id: str, epoch: int) -> None:
        """Remove a subscription and its cursor, under the same condition."""

    def flush(self, epoch: int) -> None:
        """Make durable what `save` took and has not written yet; called before the activity is handed over.

        Raises as `save`.
        """

    def close(self) -> None:
        """Write what is not written yet; there is no use of it after this."""
