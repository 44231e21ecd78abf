"""Switches, with which an operator stops and starts a destination from outside its servers."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Protocol

from canal_group.actors.coordination.connection import Connection, Refused
from canal_group.actors.coordination.local import stop_file
from canal_group.actors.process.durable import PUBLIC, make_folder, replace_file
from canal_group.merge.errors import ConfigError, CoordinatorUnavailable
from canal_group.merge.well_known import PREFIX
from canal_group.zookeeper.login import NOBODY, ZooKeeperLogin
from canal_group.zookeeper.stop_mark import StopMark
from canal_group.zookeeper.tree import Tree

#: seconds between two looks at whether a stopped destination is still served
_POLL_S = 0.05
#: seconds that connecting may take
_CONNECT_S = 15.0


class Switch(Protocol):
    """Stops and starts one destination, durably."""

    def stop(self, mark: StopMark, wait_s: float) -> StopMark:
        """Set the stop mark, and wait at most `wait_s` seconds until no server serves.

        Returns:
            The mark that is in force: an earlier one stays.

        Raises:
            CoordinatorUnavailable: the mark could not be set, or the active server has not obeyed it in time.
        """

    def start(self) -> StopMark | None:
        """Remove and return the mark; None without a mark."""


class ZooKeeperSwitch:
    """The switch of a destination whose servers are elected in ZooKeeper. Implements `Switch`."""

    def __init__(
        self,
        hosts: str,
        destination: str,
        prefix: str = PREFIX,
        login: ZooKeeperLogin = NOBODY,
    ) -> None:
        self._hosts = hosts
        self._tree = Tree(destination, prefix)
        self._login = login

    def stop(self, mark: StopMark, wait_s: float) -> StopMark:
        """Set the mark and wait until `running` is gone; see `Switch`."""
        with _Opened(self._hosts, self._tree, self._login) as connection:
            connection.ensure(self._tree.destination)
            transaction = connection.transaction()
            transaction.create(self._tree.stopped, mark.to_json())
            try:
                connection.commit(transaction)
            except Refused:
                mark = StopMark.from_json(connection.read(self._tree.stopped) or b"")
            deadline_s = time.monotonic() + wait_s
            while connection.stat(self._tree.running) is not None:
                _wait_or_raise(deadline_s, self._tree.destination.rpartition("/")[2])
        return mark

    def start(self) -> StopMark | None:
        """Take the mark away; see `Switch`."""
        with _Opened(self._hosts, self._tree, self._login) as connection:
            text = connection.read(self._tree.stopped)
            if text is None:
                return None
            transaction = connection.transaction()
            transaction.delete(self._tree.stopped)
            try:
                connection.commit(transaction)
            except Refused:
                return None
            return StopMark.from_json(text)


class LocalSwitch:
    """The switch of a destination whose servers share a folder. Implements `Switch`.

    It does not wait: a server looks at the folder several times a second.
    """

    def __init__(self, folder: Path, destination: str) -> None:
        self._file = stop_file(folder, destination)

    def stop(self, mark: StopMark, wait_s: float) -> StopMark:  # noqa: ARG002  the port's signature
        """Set the mark; see `Switch`."""
        try:
            if self._file.exists():
                return StopMark.from_json(self._file.read_bytes())
            make_folder(self._file.parent)
            # Another user may stop the destination than the user of `serve`.
            replace_file(self._file, mark.to_json().decode(), PUBLIC)
        except OSError as error:
            raise CoordinatorUnavailable(f"{self._file} cannot be written ({error.strerror}).") from error
        return mark

    def start(self) -> StopMark | None:
        """Take the mark away; see `Switch`."""
        try:
            text = self._file.read_bytes()
            self._file.unlink()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ConfigError(f"{self._file} cannot be removed ({error.strerror}).") from error
        return StopMark.from_json(text)


class _Opened:
    def __init__(self, hosts: str, tree: Tree, login: ZooKeeperLogin) -> None:
        self._connection = Connection(hosts, tree, 10.0, lambda: None, lambda: None, login)

    def __enter__(self) -> Connection:
        try:
            self._connection.open(_CONNECT_S)
        except BaseException:
            self._connection.close()
            raise
        return self._connection

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def _wait_or_raise(deadline_s: float, destination: str) -> None:
    if time.monotonic() > deadline_s:
        raise CoordinatorUnavailable(
            f"{destination} is marked as stopped, but its active server still serves it.",
            hint="If the server hangs, it loses the destination when its ZooKeeper session ends.",
        )
    threading.Event().wait(_POLL_S)
