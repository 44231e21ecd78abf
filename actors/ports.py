"""Ports: the interfaces that the group and its shards need from their environment.

`canal_group.actors.coordination` has the adapters of the coordinator, and `canal_group.actors.meta` those of
the group's store. Their calls block, so the group makes them by `Host.blocking`.
`canal_group.actors.process.host` is the host. The ports of shards are in `canal_group.actors.shard.ports`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import NoReturn, Protocol, TypeVar

from canal_group.merge.calls.client_id import checked_client_id
from canal_group.merge.duration import duration
from canal_group.merge.errors import ConfigError, UsageError
from canal_group.merge.values.loss import Loss
from canal_group.merge.values.marks.snapshot_mark import FailedTables
from canal_group.merge.values.position import GroupPosition
from canal_group.merge.well_known import NAME
from canal_group.zookeeper.stop_mark import StopMark

_T = TypeVar("_T")


class Lock(Protocol):
    """Lets one thread in at a time."""

    def __enter__(self) -> bool:
        """Wait until no other thread is in."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Let the next thread in."""


class Condition(Protocol):
    """Lets threads wait under a lock that they hold, until another thread notifies them."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait at most this many seconds for a notification; return whether it came."""

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait at most this many seconds until `predicate` is true; return whether it is."""

    def notify_all(self) -> None:
        """Wake all threads that wait."""


class ThreadEvent(Protocol):
    """A flag that threads wait for."""

    def is_set(self) -> bool:
        """Return whether it is set."""

    def set(self) -> None:
        """Set the flag and wake every waiting thread."""

    def clear(self) -> None:
        """Reset it."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait at most this many seconds until it is set; return whether it is."""


class Thread(Protocol):
    """A thread that runs."""

    def join(self, timeout: float | None = None) -> None:
        """Wait at most this many seconds until it has ended."""


class Host(Protocol):
    """The machine that a process runs on."""

    def now_us(self) -> int:
        """Return microseconds on the clock that the group's events carry; it never steps back."""

    def clock_s(self) -> float:
        """Return seconds on the clock for deadlines; it never steps back."""

    def lock(self) -> Lock:
        """Return a lock that is free."""

    def condition(self, lock: Lock) -> Condition:
        """Return a condition under a lock that `lock` made."""

    def event(self) -> ThreadEvent:
        """Return an event that is not set."""

    def start(self, run: Callable[[], None], name: str) -> Thread:
        """Run `run` on a daemon thread."""

    async def blocking(self, run: Callable[..., _T], *arguments: object) -> _T:
        """Return the result of `run`, which blocks a thread and not the loop."""

    def end(self) -> NoReturn:
        """End the process at once; its parent starts it again."""


@dataclass(frozen=True, slots=True)
class ConsumerLease:
    """The holder of a client id, as the coordinator stores it."""

    client_id: str
    #: the holder's name for people: host, process, or any other name that it chose
    holder: str
    #: fencing epoch of the holder; every call of the consumer carries it
    epoch: int
    #: the ZooKeeper session with which the holder keeps its running node itself, as `hex` writes it; empty:
    #: the server keeps the node for it
    session: str = ""


@dataclass(frozen=True, slots=True)
class ServerSeen:
    """A server of a destination, as its coordinator sees it."""

    #: "host:port"; empty: the coordinator tells of nobody but its own server
    address: str
    active: bool
    #: since when it is active, or one that stands by is registered, microseconds since 1970 UTC
    since_us: int


@dataclass(frozen=True, slots=True)
class Silence:
    """How long a coordinator has not answered."""

    #: what does not answer, for people
    whom: str
    for_s: float
    #: after how long what it said last is no longer known to be true, seconds
    lasts_s: float

    @property
    def is_long(self) -> bool:
        """Whether what it said last is no longer known to be true."""
        return self.for_s > self.lasts_s

    def __str__(self) -> str:
        """Return a sentence, without its full stop."""
        return f"{self.whom} has not answered for {duration(self.for_s)}"


class Coordinator(Protocol):
    """Decides which server of a destination and which consumer of a client id is active."""

    def campaign(self) -> int:
        """Wait until this server is the active one of its destination; return its fencing epoch.

        Epochs grow with each election.
        """

    def check_active(self) -> float:
        """Return for how many seconds this server is certain to be the active one.

        Cheap: makes no request. Called before every delivery.

        Raises:
            CoordinatorUnavailable: disconnected for so long that another server may be active.
            FencedError: another server is active.
        """

    def stop_mark(self) -> StopMark | None:
        """Return the operator's mark that stops the destination; None if there is none.

        Cheap, as `check_active`. While the mark exists, `campaign` waits.
        """

    def release_asked(self) -> bool:
        """Return whether an operator wants another server to be active; `resign` lets that happen.

        Cheap, as `check_active`.
        """

    def silence(self) -> Silence | None:
        """Return how long it has not answered this server; None: it is not a server that could be away.

        Cheap, as `check_active`.
        """

    def active_address(self) -> str:
        """Return "host:port" of the last known active server; empty if there is none or it is unknown."""

    def servers(self) -> Sequence[ServerSeen]:
        """Return the servers of the destination that are known, the active one first.

        Raises:
            CoordinatorUnavailable: no answer.
        """

    def lease_consumer(self, client_id: str, holder: str, session: str = "") -> ConsumerLease:
        """Make `holder` the active consumer of `client_id`, with an epoch higher than any before.

        The caller has made sure that no other consumer is alive. With `session`, the consumer keeps its
        running node itself, with that session.
        """

    def keep_consumer(self, client_id: str, holder: str) -> None:
        """Keep the running node of a consumer that an earlier server leased to, unless it is kept already."""

    def session_keeping(self, client_id: str) -> str:
        """Return the session of a consumer that made its running node itself; empty: there is no such node.

        Raises:
            CoordinatorUnavailable: it is not known.
        """

    def gone_consumer(self, client_id: str, session: str) -> ConsumerLease | None:
        """Return the last holder if it is known to be gone: `session` now keeps the node that it kept.

        Raises:
            ConsumerActive: the running node does not belong to `session`.
        """

    def release_consumer(self, client_id: str, session: str = "") -> None:
        """Remove the running node that the server or the consumer's `session` keeps; the lease stays."""

    def forget_consumer(self, client_id: str) -> None:
        """Keep nothing of a client id that was unsubscribed; a later epoch is higher all the same."""

    def consumers(self) -> list[ConsumerLease]:
        """Return the last holder of each client id with its epoch, which are stored across restarts."""

    def resign(self) -> None:
        """Resign in an orderly way, so that the next server can take over at once. May campaign again."""

    def close(self) -> None:
        """Resign in an orderly way, for good."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A client id's durable state."""

    client_id: str
    #: canal's comma-separated regular expressions on `schema.table`; empty: everything
    filter: str
    #: None until the first position is known
    cursor: GroupPosition | None
    #: whether the client id was inactive for too long, so that the group stopped keeping its rows
    dropped: bool = False
    #: losses: changes purged by the sources before their delivery
    losses: tuple[Loss, ...] = ()
    #: where the cursor was before it passed only transactions of which nothing is kept; None: it did not
    quiet_since: GroupPosition | None = None
    #: whether it acknowledged once, or was asked to hold rows without
    lasting: bool = False
    #: tables that its snapshots could not read, by shard
    unread: Mapping[str, FailedTables] = field(default_factory=dict)
    #: why what is stored cannot be read: nothing else is known then, and nothing is written
    unreadable: ConfigError | None = None

    def __post_init__(self) -> None:
        """Check the client id: one that is stored is shown to everybody.

        Raises:
            UsageError: it cannot be one.
        """
        checked_client_id(self.client_id)


@dataclass(frozen=True, slots=True)
class Kind:
    """What a group's store keeps under one kind of key.

    Each codec of `canal_group.actors.group.stored` defines its own.

    A value is a text of whole lines.
    """

    #: first part of the keys
    name: str
    #: what happens once a value is removed, for messages
    removed: str
    #: of a kind whose names are client ids and whose values are JSON objects of texts: their members, the
    #: first of which is always there. ZooKeeper keeps each in a node below the client id's, as canal does
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Key:
    """Under which a value is stored, such as cursors/1001.

    Raises:
        UsageError: the name cannot be a file's or a node's.
    """

    kind: Kind
    name: str

    def __post_init__(self) -> None:
        """Check the name."""
        if not NAME.fullmatch(self.name):
            raise UsageError(f"{self.name[:128]!a} cannot be stored among {self.kind.name}: not a name.")

    def __str__(self) -> str:
        """Return it as messages show it."""
        return f"{self.kind.name}/{self.name}"


class EpochStore(Protocol):
    """What a destination's group keeps, by key; the adapter decides how durable it is.

    Every call is made under an epoch, and refused with FencedError if a newer one has been seen; then nothing
    was changed. A newer epoch than any before is claimed by the call. Every call may also raise:

        CoordinatorUnavailable: the store did not answer. It is unknown whether a write was done; making it
            again is harmless, except for `append`, of which any whole lines from its beginning were written.
        ConfigError: what is stored is damaged, or cannot be read or held.
    """

    def claim(self, epoch: int) -> None:
        """Record that `epoch` is the server's current one: older epochs can no longer write."""

    def names(self, kind: Kind, epoch: int) -> list[str]:
        """Return the names of a kind's keys that have a value, in order."""

    def get(self, key: Key, epoch: int) -> str | None:
        """Return the stored value, or None."""

    def put(self, key: Key, text: str, epoch: int, *, may_wait: bool = False) -> None:
        """Write a value over the one before, all of it or nothing.

        Args:
            key: where.
            text: whole lines.
            epoch: the server's.
            may_wait: whether a crash may undo it after this call returned.
        """

    def append(self, key: Key, text: str, epoch: int) -> None:
        """Continue a value that exists with whole lines: what that costs does not depend on its length."""

    def delete(self, key: Key, epoch: int) -> None:
        """Remove the stored value, if any."""

    def where(self, key: Key) -> str:
        """Return the file or node of a value, for messages."""

    def flush(self, epoch: int) -> None:
        """Write what `put` accepted and has not written yet; called before the server hands over."""

    def close(self) -> None:
        """Write what is not written yet; the store is not used after this."""


def damaged(where: str, kind: Kind, error: object) -> ConfigError:
    """Return the error for a value that is not one of its kind."""
    hint = f"Restore it from a backup, or remove it: {kind.removed}."
    if kind.members:
        # They lie where canal has its own, which must not be removed for ours.
        hint = f"If canal uses this destination too, choose another one, or another prefix. {hint}"
    return ConfigError(f"{where} does not hold {kind.name} of canal-group ({error}).", hint=hint)
