"""A group's store in ZooKeeper: texts below `stored`, and what canal's tools look at where canal keeps it.

A value of a kind with members, as cursors are, is a node for each member below the client id's node:
`filter`, `cursor` and so on. The cursor is a GroupPosition as JSON, not canal's LogPosition: it has one
position for each shard. One with thousands of shards, or with long GTID sets, is compressed: a node, and a
request, hold less than 1 MiB.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from canal_group.actors.meta.zookeeper_texts import ADDED_BYTES, BYTES_MAX, TextNodes, unpacked
from canal_group.actors.ports import Key, Kind, damaged
from canal_group.merge.errors import ConfigError

#: limit of bytes of an unpacked member; one that fits into a node has a tenth of that, whatever its GTID sets
UNPACKED_BYTES_MAX = 64 << 20
#: bytes from which a member is compressed; smaller ones stay readable for people
COMPRESSED_FROM = 64 << 10
#: first bytes of a compressed member
_COMPRESSED = b"zlib\n"


class FencedNodes(Protocol):
    """What it needs from ZooKeeper; `canal_group.actors.coordination.connection.Connection` implements it."""

    def read(self, path: str) -> bytes | None:
        """Return a node's data, or None if the node does not exist."""

    def children(self, path: str) -> list[str]:
        """Return the names of a node's children in order; none if there is no such node."""

    def write(self, epoch: int, changes: Sequence[tuple[str, bytes | None]]) -> None:
        """Set or create every (path, data), delete every (path, None), or raise FencedError."""

    def require_epoch(self, epoch: int) -> None:
        """Raise FencedError unless `epoch` is the server's current one; later reads are not older."""

    def check_epoch(self, epoch: int) -> None:
        """Raise FencedError if the epoch's node does not say `epoch`."""


class StoreNodes(Protocol):
    """The paths of values; `canal_group.zookeeper.tree.Tree` implements it."""

    @property
    def destination(self) -> str:
        """The parent of all client ids' nodes."""

    def is_client(self, name: str) -> bool:
        """Return whether a child of `destination` is a client id."""

    def client(self, client_id: str) -> str:
        """Return the node of a client id."""

    def stored(self, kind: str) -> str:
        """Return the parent of the texts of a kind."""


class ZooKeeperStore:
    """Keeps values in ZooKeeper, for every server that may be elected.

    Guarantees: each write is one transaction that also checks the server's epoch. Once a newer server is
    elected, every write of an older one is refused, however late it arrives.

    Implements `canal_group.actors.ports.EpochStore`. One thread at a time writes a key.

    Args:
        nodes: the coordinator's connection; its session is shared.
        tree: paths of the nodes.
        bytes_max: limit of a node's data, and of a transaction's.
        added_bytes: bytes of a text's node from which on the next addition begins another one.
    """

    def __init__(
        self,
        nodes: FencedNodes,
        tree: StoreNodes,
        *,
        bytes_max: int = BYTES_MAX,
        added_bytes: int = ADDED_BYTES,
    ) -> None:
        self._nodes = nodes
        self._tree = tree
        self._bytes_max = bytes_max
        self._texts = TextNodes(nodes.read, nodes.write, bytes_max, added_bytes)

    def claim(self, epoch: int) -> None:
        """Return if `epoch` is the current one; ZooKeeper refuses every older one by itself."""
        self._nodes.require_epoch(epoch)

    def names(self, kind: Kind, epoch: int) -> list[str]:
        """Return the names of a kind's keys, in order."""
        self._nodes.check_epoch(epoch)
        if not kind.members:
            return self._texts.names(self._nodes.children(self._tree.stored(kind.name)))
        clients = filter(self._tree.is_client, self._nodes.children(self._tree.destination))
        first = kind.members[0]
        return [
            name for name in clients if self._nodes.read(f"{self._tree.client(name)}/{first}") is not None
        ]

    def get(self, key: Key, epoch: int) -> str | None:
        """Return the stored value, or None."""
        self._nodes.check_epoch(epoch)
        with self._reads(key):
            return self._members(key) if key.kind.members else self._texts.read(self._text(key))

    def put(self, key: Key, text: str, epoch: int, *, may_wait: bool = False) -> None:  # noqa: ARG002
        """Write a value; it is durable when this returns.

        Raises:
            ConfigError: it is too large for a ZooKeeper node, and nothing was sent; or the text that it
                replaces is damaged.
            UsageError: the client id cannot be a node.
        """
        if key.kind.members:
            self._put_members(key, json.loads(text), epoch)
            return
        with self._reads(key):
            self._texts.write(self._text(key), text, epoch)

    def append(self, key: Key, text: str, epoch: int) -> None:
        """Continue a text; it is durable when this returns."""
        with self._reads(key):
            self._texts.append(self._text(key), text, epoch)

    def delete(self, key: Key, epoch: int) -> None:
        """Remove the stored value, if any."""
        if key.kind.members:
            node = self._tree.client(key.name)
            self._nodes.write(epoch, [(f"{node}/{member}", None) for member in key.kind.members])
            return
        with self._reads(key):
            self._texts.remove(self._text(key), epoch)

    def where(self, key: Key) -> str:
        """Return the path of a value's node."""
        return self._tree.client(key.name) if key.kind.members else self._text(key)

    def flush(self, epoch: int) -> None:
        """Do nothing: a value is durable when `put` returns."""

    def close(self) -> None:
        """Do nothing: whatever was written is kept."""

    # ---- inside

    @contextmanager
    def _reads(self, key: Key) -> Iterator[None]:
        """Translate what a damaged node raises."""
        try:
            yield
        except (KeyError, RecursionError, TypeError, ValueError, zlib.error) as error:
            raise damaged(self.where(key), key.kind, error) from error

    def _text(self, key: Key) -> str:
        return f"{self._tree.stored(key.kind.name)}/{key.name}"

    def _members(self, key: Key) -> str | None:
        node, members = self._tree.client(key.name), {}
        for member in key.kind.members:
            data = self._nodes.read(f"{node}/{member}")
            if data is not None:
                members[member] = _unpacked(data)
            elif not members:
                return None
        return json.dumps(members) + "\n"

    def _put_members(self, key: Key, members: dict[str, str], epoch: int) -> None:
        node = self._tree.client(key.name)
        values = [
            (f"{node}/{member}", _packed(members[member]) if member in members else None)
            for member in key.kind.members
        ]
        size = sum(len(data or b"") for _, data in values)
        if size > self._bytes_max:
            raise ConfigError(
                f"{node} would have {size:,} bytes of {key.kind.name}: too many for a ZooKeeper node.",
                hint="It has very many shards, or GTID sets with many gaps, and is compressed already. Keep"
                " cursors in a file (`cursor: kind: file`).",
                bytes=size,
                bytes_max=self._bytes_max,
            )
        self._nodes.write(epoch, values)


def _packed(text: str) -> bytes:
    data = text.encode()
    # A short text that begins like a compressed one would be taken for one.
    if len(data) < COMPRESSED_FROM and not data.startswith(_COMPRESSED):
        return data
    return _COMPRESSED + zlib.compress(data)


def _unpacked(data: bytes) -> str:
    packed = data.startswith(_COMPRESSED)
    return (unpacked(data.removeprefix(_COMPRESSED), UNPACKED_BYTES_MAX) if packed else data).decode()
