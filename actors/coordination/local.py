"""Coordination on one machine, without ZooKeeper.

With a folder, a locked file lets one server at a time be active, and a JSON file stores the epochs. Without
one, everything is in memory, and no other server competes.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from canal_group.actors.ports import ConsumerLease, ServerSeen
from canal_group.actors.process.durable import make_folder, open_lock, replace_file
from canal_group.merge.errors import ConfigError, CoordinatorUnavailable, UsageError
from canal_group.merge.file_name import file_name
from canal_group.merge.values.epoch import Tenure
from canal_group.merge.well_known import NAME
from canal_group.zookeeper.stop_mark import StopMark

#: 2026-01-01T00:00:00Z in seconds since 1970; epochs in memory count from here, and stay below 2**31 until
#: 2094
EPOCH_ZERO_S = 1_767_225_600
#: seconds between two attempts to get a lock that another process holds; a blocking wait could not be ended
#: by `close`
POLL_S = 0.2


@dataclass(slots=True)
class _Epochs:
    """The last epochs: of a server, of any consumer, and of each client id's consumer."""

    server: int = 0
    consumer: int = 0
    consumers: dict[str, ConsumerLease] = field(default_factory=dict)

    def to_json(self) -> str:
        consumers = {
            lease.client_id: {"epoch": lease.epoch, "holder": lease.holder}
            for lease in self.consumers.values()
        }
        epochs = {"consumer": self.consumer, "consumers": consumers, "server": self.server}
        return json.dumps(epochs, indent=1, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> _Epochs:
        value = json.loads(text)
        consumers = {
            str(client_id): ConsumerLease(str(client_id), str(lease["holder"]), _count(lease["epoch"]))
            for client_id, lease in value["consumers"].items()
        }
        return cls(_count(value["server"]), _count(value["consumer"]), consumers)


class LocalCoordinator:
    """Makes one server of this machine at a time the active one, and stores its consumers' epochs.

    Guarantees: epochs grow with each election. With a folder they are durable, and a second server waits
    until the first has closed or ended, also by kill -9. Without a folder they grow from process to process,
    as long as the machine's clock does not step back and a process takes fewer epochs than it lives seconds.
    Guarantees nothing across machines: file locks of network file systems differ.

    Implements `canal_group.actors.ports.Coordinator`.

    Args:
        destination: name of the destination, from which the files' names are made.
        folder: where the lock and the epochs are kept; None: in memory.
        now_s: seconds since 1970.

    Raises:
        ConfigError: the destination's name cannot name a file.
    """

    def __init__(
        self, destination: str, folder: Path | None = None, *, now_s: Callable[[], float] = time.time
    ) -> None:
        if not NAME.fullmatch(destination):
            raise ConfigError(
                f"{destination!r} is not a destination name.",
                hint="Use letters, digits, dots, hyphens and underscores.",
            )
        self._destination = destination
        self._folder = folder
        self._now_s = now_s
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._epochs = _Epochs()
        self._tenure: Tenure | None = None
        #: when it was won
        self._won_us = 0
        #: the locked file; None while not active, and always without a folder
        self._lock_fd: int | None = None

    def campaign(self) -> int:
        """Wait until this server is the active one of its destination and return its fencing epoch.

        Raises:
            ConfigError: the folder cannot be written, or the file of epochs is damaged.
            UsageError: `close` was called.
        """
        if self._folder is not None and self._lock_fd is None:
            self._lock_fd = self._wait_for_lock(self._folder)
        while self.stop_mark() is not None and not self._closed.is_set():
            self._closed.wait(POLL_S)
        with self._lock:
            if self._closed.is_set():
                self._release()
                raise UsageError("The coordinator is closed.")
            if self._folder is not None:
                self._epochs = _load(self._file(self._folder))
            epoch = self._next(self._epochs.server)
            self._remember(replace(self._epochs, server=epoch))
            self._tenure = Tenure(epoch, float("inf"))
            self._won_us = int(self._now_s() * 1e6)
        return epoch

    def check_active(self) -> float:
        """Return for how many seconds this server is certainly the active one: infinity.

        Raises:
            CoordinatorUnavailable: not elected yet.
            FencedError: the coordinator was closed.
        """
        if self._tenure is None:
            raise CoordinatorUnavailable(
                f"This server stands by for {self._destination}; another one is active."
            )
        return self._tenure.check(0.0)

    def stop_mark(self) -> StopMark | None:
        """Return an operator's stop mark, None if there is none; without a folder there is none.

        Raises:
            CoordinatorUnavailable: the folder cannot be read.
        """
        if self._folder is None:
            return None
        file = stop_file(self._folder, self._destination)
        try:
            return StopMark.from_json(file.read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CoordinatorUnavailable(f"{file} cannot be read ({error.strerror}).") from error

    def release_asked(self) -> bool:
        """Return False: there is no `running` node in which an operator could ask for a release."""
        return False

    def silence(self) -> None:
        """Return None: a lock in a file depends on no other server."""

    def active_address(self) -> str:
        """Return an empty string: a lock does not tell which server holds it."""
        return ""

    def servers(self) -> list[ServerSeen]:
        """Return this server if active: a lock does not tell its waiting servers."""
        with self._lock:
            if self._tenure is None or self._tenure.over:
                return []
            return [ServerSeen("", active=True, since_us=self._won_us)]

    def lease_consumer(self, client_id: str, holder: str, session: str = "") -> ConsumerLease:  # noqa: ARG002
        """Make `holder` the active consumer of `client_id`, with an epoch higher than any before.

        Raises:
            FencedError: the coordinator was closed; nothing was changed.
            CoordinatorUnavailable: not elected yet; nothing was changed.
        """
        with self._lock:
            self.check_active()
            lease = ConsumerLease(client_id, holder, self._next(self._epochs.consumer))
            consumers = {**self._epochs.consumers, client_id: lease}
            self._remember(replace(self._epochs, consumer=lease.epoch, consumers=consumers))
        return lease

    def keep_consumer(self, client_id: str, holder: str) -> None:
        """Do nothing: without ZooKeeper a consumer has no running node."""

    def session_keeping(self, client_id: str) -> str:  # noqa: ARG002  the port's signature
        """Return nothing: there are no nodes."""
        return ""

    def gone_consumer(self, client_id: str, session: str) -> ConsumerLease | None:  # noqa: ARG002
        """Refuse: without ZooKeeper no consumer can keep a node.

        Raises:
            UsageError: always.
        """
        raise UsageError(
            f"{self._destination} has no ZooKeeper: a consumer cannot keep a node of its own.",
            hint="Connect to the gateway's address.",
        )

    def release_consumer(self, client_id: str, session: str = "") -> None:
        """Do nothing: without ZooKeeper a consumer has no running node; its lease stays."""

    def forget_consumer(self, client_id: str) -> None:
        """Keep nothing of a client id that was unsubscribed; raises as `lease_consumer`."""
        with self._lock:
            self.check_active()
            if client_id in self._epochs.consumers:
                others = {name: lease for name, lease in self._epochs.consumers.items() if name != client_id}
                self._remember(replace(self._epochs, consumers=others))

    def consumers(self) -> list[ConsumerLease]:
        """Return the last holder of each client id, with its epoch, in the order of client ids."""
        with self._lock:
            return [lease for _, lease in sorted(self._epochs.consumers.items())]

    def resign(self) -> None:
        """Stop being active, so that a waiting server takes over. May campaign again."""
        self._give_up("The activity was given up.")

    def close(self) -> None:
        """Stop being active for good. May be called again."""
        self._closed.set()
        self._give_up("The coordinator was closed.")

    # ---- inside

    def _give_up(self, why: str) -> None:
        with self._lock:
            if self._tenure is not None:
                self._tenure = self._tenure.ended(why)
            self._release()

    def _wait_for_lock(self, folder: Path) -> int:
        file = folder / file_name(f"{self._destination}.lock")
        try:
            make_folder(folder)
            fd = open_lock(file)
        except OSError as error:
            raise ConfigError(f"{file} cannot be opened ({error.strerror}).") from error
        while not self._closed.is_set():
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._closed.wait(POLL_S)
            else:
                return fd
        os.close(fd)
        raise UsageError("The coordinator is closed.")

    def _release(self) -> None:
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    def _next(self, last: int) -> int:
        if self._folder is not None:
            return last + 1
        return max(last + 1, int(self._now_s()) - EPOCH_ZERO_S)

    def _remember(self, epochs: _Epochs) -> None:
        """Store the epochs; with a folder they are durable before they are used."""
        if self._folder is not None:
            _store(self._file(self._folder), epochs)
        self._epochs = epochs

    def _file(self, folder: Path) -> Path:
        return folder / file_name(f"{self._destination}.epochs.json")


def stop_file(folder: Path, destination: str) -> Path:
    """Return the file that exists while an operator keeps a destination stopped."""
    return folder / file_name(f"{destination}.stopped.json")


def _load(file: Path) -> _Epochs:
    try:
        return _Epochs.from_json(file.read_bytes())
    except FileNotFoundError:
        return _Epochs()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read ({error.strerror}).") from error
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise ConfigError(
            f"{file} does not hold epochs ({type(error).__name__}: {error}).",
            hint="Restore it from a backup. Without it epochs start over, and the cursor store refuses them.",
        ) from error


def _store(file: Path, epochs: _Epochs) -> None:
    """Replace the file as a whole; the server's lock is held, so the temporary name is ours."""
    try:
        replace_file(file, epochs.to_json())
    except OSError as error:
        raise CoordinatorUnavailable(f"{file} cannot be written ({error.strerror}).") from error


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not an epoch")
    return value
