"""A consumer's use of ZooKeeper: find the active gateway, and keep the running node of its client id.

The tree is canal's (`canal_group.zookeeper.tree`). This module imports kazoo, and it is imported only if
`zookeeper=` is passed to `connect`: a consumer that knows its gateway's address needs neither.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from kazoo.exceptions import NodeExistsError, NoNodeError

from canal_group.gateway.gateway_uri import is_endpoint
from canal_group.merge.errors import ConfigError, ConsumerActive, CoordinatorUnavailable, ServerUnavailable
from canal_group.merge.well_known import PREFIX
from canal_group.zookeeper.client import new_client, translated
from canal_group.zookeeper.login import NOBODY, ZooKeeperLogin
from canal_group.zookeeper.server_state import gateway_of
from canal_group.zookeeper.tree import Tree

#: seconds of silence after which ZooKeeper removes our node, so that the next consumer can take over
SESSION_TIMEOUT_S = 10.0
#: timeout of one request, seconds
_CALL_TIMEOUT_S = 10.0
#: timeout of the first connection, seconds
_CONNECT_TIMEOUT_S = 5.0


class Directory:
    """A consumer's session in ZooKeeper. Safe to use from several threads.

    Args:
        hosts: "host:port,host:port", optionally followed by a chroot.
        destination: the logical instance to read.
        prefix: path of canal's tree.
        session_timeout_s: seconds of silence after which the next consumer may take the client id.
        login: our login at ZooKeeper; the same user as the servers', if they have one.

    Raises:
        ConfigError: hosts, destination or prefix is invalid.
    """

    def __init__(
        self,
        hosts: str,
        destination: str,
        prefix: str = PREFIX,
        session_timeout_s: float = SESSION_TIMEOUT_S,
        *,
        login: ZooKeeperLogin = NOBODY,
    ) -> None:
        self._tree = Tree(destination, prefix)
        self._hosts = hosts
        self._client = new_client(hosts, session_timeout_s, login)
        self._started = False

    def gateways(self) -> list[str]:
        """Return the active server's gateway, or all candidates' if none is active; "grpc://host:port".

        Raises:
            CoordinatorUnavailable: ZooKeeper does not answer.
            ServerUnavailable: a registered gateway is not a valid address; no connection is opened.
        """
        state = self._read(self._tree.running)
        address = gateway_of(state) if state is not None else ""
        if address:
            return [self._gateway(address)]
        try:
            servers = self._ask(lambda: self._client.get_children_async(self._tree.clusters[1]))
        except NoNodeError:
            servers = []
        return [self._gateway(server) for server in sorted(map(self._registered, servers))]

    def take(self, client_id: str, holder: str) -> str:
        """Take the client id's running node, or keep it if it is ours.

        Returns:
            Our session id in hexadecimal, as the server expects it.

        Raises:
            ConsumerActive: another consumer holds it.
            CoordinatorUnavailable: ZooKeeper does not answer; taking it again is harmless.
            UsageError: `client_id` is not a valid client id.
        """
        path = self._tree.client_running(client_id)
        number = int(client_id) if client_id.isdecimal() else client_id
        state = json.dumps(
            {"active": True, "address": holder, "clientId": number}, separators=(",", ":")
        ).encode()
        try:
            self._ask(lambda: self._client.create_async(path, state, ephemeral=True, makepath=True))
        except NodeExistsError:
            self._check_ours(client_id, path)
        identity = self._client.client_id
        if identity is None:
            raise self._unavailable("has just ended this session")
        return hex(identity[0])

    def let_go(self, client_id: str) -> None:
        """Delete this consumer's running node: a waiting consumer can then make another."""
        if not self._client.connected:
            return  # It goes with our session.
        path = self._tree.client_running(client_id)
        try:
            if self._owner(path) == self._session_id:
                self._ask(lambda: self._client.delete_async(path))
        except (NoNodeError, CoordinatorUnavailable):
            pass  # It goes with our session.

    def close(self) -> None:
        """End the session, which removes the running node."""
        self._client.stop()
        self._client.close()

    # ---- inside

    def _registered(self, server: str) -> str:
        """Return where the gateway of a registered server is."""
        return gateway_of(self._read(f"{self._tree.clusters[1]}/{server}") or b"", server)

    def _gateway(self, address: str) -> str:
        if not is_endpoint(address):
            raise ServerUnavailable(
                f"ZooKeeper at {self._hosts} names {address!r} as a gateway, which is not host:port.",
                hint="Check who may write to ZooKeeper (coordination.user), and check gateway.advertise.",
                retry_after_s=0.5,
            )
        return f"grpc://{address}"

    @property
    def _session_id(self) -> int:
        identity = self._client.client_id
        return 0 if identity is None else int(identity[0])

    def _check_ours(self, client_id: str, path: str) -> None:
        owner = self._owner(path)
        if owner == self._session_id:
            return
        name = _address(self._read(path) or b"") or "another consumer"
        raise ConsumerActive(
            f"Client {client_id} is held by {name}.",
            hint="Wait until it is closed or its session ends, or use another client id.",
            holder=name,
            retry_after_s=0.3,
        )

    def _owner(self, path: str) -> int:
        stat = self._ask(lambda: self._client.exists_async(path))
        return 0 if stat is None else int(stat.ephemeralOwner)

    def _read(self, path: str) -> bytes | None:
        try:
            data: bytes | None = self._ask(lambda: self._client.get_async(path))[0]
        except NoNodeError:
            return None
        return data or b""

    def _ask(self, ask: Callable[[], Any]) -> Any:
        with translated(self._client, self._refused, self._unavailable):
            if not self._started:
                self._client.start(timeout=_CONNECT_TIMEOUT_S)
                self._started = True
            if not self._client.connected:
                # kazoo would queue the request until the connection is back.
                raise self._unavailable("is not connected")
            return ask().get(timeout=_CALL_TIMEOUT_S)

    def _refused(self, why: str) -> ConfigError:
        return ConfigError(
            f"ZooKeeper at {self._hosts} refuses access ({why}).",
            hint="Pass zookeeper_auth: the servers' coordination.user and its password.",
        )

    def _unavailable(self, what: str) -> CoordinatorUnavailable:
        return CoordinatorUnavailable(f"ZooKeeper at {self._hosts} {what}.", retry_after_s=0.5)


def _address(state: bytes) -> str:
    """Return the address in a running node; empty if it has none."""
    try:
        return str(json.loads(state)["address"])
    except (KeyError, RecursionError, TypeError, ValueError):
        return ""
