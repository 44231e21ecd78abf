"""Cursors in ZooKeeper: `filter` and `cursor` below each client id's node, where canal keeps them.

A cursor's text is a GroupPosition as JSON, not canal's LogPosition: it has one position for each shard. One
with thousands of shards, or with long GTID sets, is compressed: a node, and a request, hold less than 1 MiB.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import Protocol

from actors.ports import Subscription
from merge.errors import ConfigError, UsageError
from merge.values.loss import from_dicts, to_dicts
from merge.values.position import GroupPosition

#: limit of bytes of one subscription's filter and cursor together; a node, and a request to ZooKeeper, hold
#: less than 1 MiB
BYTES_MAX = 1_000_000
#: limit of bytes of an unpacked cursor; one that fits into a node has a tenth of that, whatever its GTID sets
UNPACKED_BYTES_MAX = 64 << 20
#: bytes from which a cursor is compressed; smaller ones stay readable for people
COMPRESSED_FROM = 64 << 10
#: first bytes of a compressed cursor; a plain one begins with a brace
_COMPRESSED = b"zlib\n"
#: nodes that a write of a subscription writes or removes, in one transaction
_NODES = ("filter", "cursor", "dropped", "losses", "quiet_since")


class FencedNodes(Protocol):
    """What this store needs from ZooKeeper; `actors.coordination.connection.Connection` implements it."""

    def read(self, path: str) -> bytes | None:
        """Return a node's data, or None if there is no such node."""

    def children(self, path: str) -> list[str]:
        """Return the names of a node's children in order; none if there is no such node."""

    def write(self, epoch: int, changes: Sequence[tuple[str, bytes | None]]) -> None:
        """Set or create every (path, data), delete every (path, None), or raise FencedError."""

    def require_epoch(self, epoch: int) -> None:
        """Raise FencedError unless `epoch` is the server's current one."""


class ClientNodes(Protocol):
    """The paths of client ids' nodes; `canal_group.zookeeper.tree.Tree` implements it."""

    @property
    def destination(self) -> str:
        """The parent of all of them."""

    def is_client(self, name: str) -> bool:
        """Return whether a child of `destination` is a client id."""

    def client(self, client_id: str) -> str:
        """Return the node of a client id."""


class ZooKeeperCursorStore:
    """Keeps subscriptions in ZooKeeper, for every server that may be elected.

    Guarantees: each write is one transaction that also checks the server's epoch. Once a newer server is
    elected, every write of an older one is refused, however late it arrives.

    Implements `actors.ports.CursorStore`.

    Args:
        nodes: the coordinator's connection; its session is shared.
        tree: paths of the client ids' nodes.
    """

    def __init__(self, nodes: FencedNodes, tree: ClientNodes) -> None:
        self._nodes = nodes
        self._tree = tree

    def claim(self, epoch: int) -> None:
        """Return if `epoch` is the current one; ZooKeeper refuses every older one by itself.

        Raises:
            FencedError: another epoch is current.
            CoordinatorUnavailable: ZooKeeper did not answer.
        """
        self._nodes.require_epoch(epoch)

    def load(self) -> list[Subscription]:
        """Return every subscription, in the order of client ids. A client id without a filter has none.

        Raises:
            CoordinatorUnavailable: ZooKeeper did not answer.
            ConfigError: a cursor was not written by canal-group, but perhaps by canal.
        """
        names = filter(self._tree.is_client, self._nodes.children(self._tree.destination))
        found = map(self._load, names)
        return [subscription for subscription in found if subscription is not None]

    def save(self, subscription: Subscription, epoch: int) -> None:
        """Write a subscription's filter and cursor in one transaction, if `epoch` is still the current one.

        Raises:
            FencedError: another epoch is current; nothing was written.
            CoordinatorUnavailable: it is unknown whether it was written; saving it again is harmless.
            ConfigError: it is too large for a ZooKeeper node; nothing was sent.
            UsageError: the client id cannot be a node.
        """
        node = self._tree.client(subscription.client_id)
        pattern = subscription.filter.encode()
        cursor = None if subscription.cursor is None else _packed(subscription.cursor)
        losses = json.dumps(to_dicts(subscription.losses)).encode() if subscription.losses else None
        since = None if subscription.quiet_since is None else _packed(subscription.quiet_since)
        size = sum(len(value or b"") for value in (pattern, cursor, losses, since))
        if size > BYTES_MAX:
            raise ConfigError(
                f"The cursor of {subscription.client_id} has {size:,} bytes: too many for a ZooKeeper node.",
                hint="It has very many shards, or GTID sets with many gaps, and is compressed already. Keep"
                " cursors in a file (`cursor: kind: file`).",
                bytes=size,
                bytes_max=BYTES_MAX,
            )
        dropped = b"" if subscription.dropped else None
        values = zip(_NODES, (pattern, cursor, dropped, losses, since), strict=True)
        self._nodes.write(epoch, [(f"{node}/{name}", value) for name, value in values])

    def forget(self, client_id: str, epoch: int) -> None:
        """Remove a subscription and its cursor, if there is one.

        Raises:
            FencedError: another epoch is current; nothing was written.
            CoordinatorUnavailable: it is unknown whether it was done; doing it again is harmless.
        """
        node = self._tree.client(client_id)
        self._nodes.write(epoch, [(f"{node}/{kept}", None) for kept in _NODES])

    def close(self) -> None:
        """Do nothing: whatever was saved is kept."""

    def flush(self, epoch: int) -> None:
        """Do nothing: a save is durable when it returns."""

    def _load(self, client_id: str) -> Subscription | None:
        node = self._tree.client(client_id)
        pattern, cursor = self._nodes.read(f"{node}/filter"), self._nodes.read(f"{node}/cursor")
        if pattern is None:
            return None
        try:
            position = _position(cursor)
            dropped = self._nodes.read(f"{node}/dropped") is not None
            losses = from_dicts(json.loads(self._nodes.read(f"{node}/losses") or b"[]"))
            since = _position(self._nodes.read(f"{node}/quiet_since"))
            return Subscription(client_id, pattern.decode(), position, dropped, losses, since)
        except (RecursionError, TypeError, UsageError, ValueError, zlib.error) as error:
            raise ConfigError(
                f"{node} does not hold a subscription of canal-group ({error}).",
                hint="Another program uses this destination: choose another prefix or destination.",
            ) from error


def _position(data: bytes | None) -> GroupPosition | None:
    return None if data is None else GroupPosition.from_json(_unpacked(data))


def _packed(cursor: GroupPosition) -> bytes:
    text = cursor.to_json().encode()
    return text if len(text) < COMPRESSED_FROM else _COMPRESSED + zlib.compress(text)


def _unpacked(data: bytes) -> bytes:
    return unpacked(data, UNPACKED_BYTES_MAX) if data.startswith(_COMPRESSED) else data


def unpacked(data: bytes, bytes_max: int) -> bytes:
    """Return what compressed data holds.

    Raises:
        ValueError: it is cut off, or unpacks to more than `bytes_max`.
        zlib.error: it is not compressed.
    """
    unpacker = zlib.decompressobj()
    text = unpacker.decompress(data.removeprefix(_COMPRESSED), bytes_max)
    if not unpacker.eof:
        raise ValueError(f"it is cut off, or unpacks to more than {bytes_max:,} bytes")
    return text
