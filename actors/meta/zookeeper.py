"""A group's store in ZooKeeper: texts below `stored`, and what canal's tools look at where canal keeps it.

A value of a kind with members, as cursors are, is a node for each member below the client id's node:
`filter`, `cursor` and so on. The cursor is a GroupPosition as JSON, not canal's LogPosition: it has one
position for each shard. One with thousands of shards, or with long GTID sets, is compressed: a node, and a
request, hold less than 1 MiB.

Texts in ZooKeeper, compressed: a text's node names the parts that it is in.

    {"number": 1, "parts": 2, "added": 3}     1:0 and 1:1, one compressed text in two parts, then 1:+0
                                              to 1:+2, each a compressed text that continues it

Parts of a whole text are written under a new number, then the node names them, and the parts before them are
removed with that. What continues the text is added to the last node of that kind while it is small. What a
write that failed has left of its parts is overwritten by the next one.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from canal_group.actors.ports import Key, Kind, damaged
from canal_group.merge.errors import ConfigError
from canal_group.merge.whole import whole

#: limit of bytes of a node's data, and of a transaction's: a node, and a request to ZooKeeper, hold less than
#: 1 MiB
BYTES_MAX = 1_000_000
#: limit of bytes of an unpacked text
TEXT_BYTES_MAX = 256 << 20
#: bytes of a node from which on the next addition begins another one
ADDED_BYTES = 32 << 10
#: which part of a node's limit an addition may have in characters: they fit a node, compressed or not
_ADDED_PART = 4


class _Listed(NamedTuple):
    number: int
    parts: int
    added: int

    def to_bytes(self) -> bytes:
        return json.dumps(self._asdict()).encode()

    def paths(self, node: str) -> tuple[list[str], list[str]]:
        """Return the paths of the parts, and of what was added."""
        stem = f"{node}:{self.number}"
        return [f"{stem}:{n}" for n in range(self.parts)], [f"{stem}:+{n}" for n in range(self.added)]


class TextNodes:
    """Reads and writes texts of any length, each below a node's path.

    Every call raises KeyError, TypeError, ValueError, RecursionError or zlib.error if a node is damaged.

    Args:
        read_node: returns a node's data, or None.
        write: makes changes in one transaction, if an epoch is current, as `FencedNodes.write`.
        bytes_max: limit of a node's data, and of a transaction's.
        added_bytes: bytes of a node from which on the next addition begins another one.
    """

    def __init__(
        self,
        read_node: Callable[[str], bytes | None],
        write: Callable[[int, Sequence[tuple[str, bytes | None]]], None],
        bytes_max: int = BYTES_MAX,
        added_bytes: int = ADDED_BYTES,
    ) -> None:
        self._read_node = read_node
        self._write_nodes = write
        self._bytes_max, self._added_bytes = bytes_max, added_bytes

    def names(self, children: Iterable[str]) -> list[str]:
        """Return the names of a parent's children that are texts, and not parts of texts."""
        return [name for name in children if ":" not in name]

    def read(self, node: str) -> str | None:
        """Return the stored text, or None."""
        listed = self._listed(node)
        if listed is None:
            return None
        parts, added = listed.paths(node)
        # A part that is missing is noticed when the whole is unpacked.
        text = unpacked(b"".join(self._read_node(path) or b"" for path in parts), TEXT_BYTES_MAX)
        text += b"".join(unpacked(self._read_node(path) or b"", TEXT_BYTES_MAX) for path in added)
        return text.decode()

    def write(self, node: str, text: str, epoch: int) -> None:
        """Write a text over the one before."""
        before = self._listed(node)
        data = zlib.compress(text.encode())
        pieces = [data[at : at + self._bytes_max] for at in range(0, len(data), self._bytes_max)]
        listed = _Listed(1 - before.number if before is not None else 0, len(pieces), 0)
        *first, last = zip(listed.paths(node)[0], pieces, strict=True)
        for path, piece in first:
            self._write_nodes(epoch, [(path, piece)])
        removed = self._removal(node, before)
        if len(last[1]) + sum(len(path) for path, _ in removed) > self._bytes_max:
            self._write_nodes(epoch, [last])
            self._write_nodes(epoch, [(node, listed.to_bytes()), *removed])
        else:
            self._write_nodes(epoch, [last, (node, listed.to_bytes()), *removed])

    def append(self, node: str, text: str, epoch: int) -> None:
        """Continue a text that exists."""
        listed = self._listed(node)
        if listed is None:
            raise ValueError("it is missing, and was to be continued")
        if len(text) > self._bytes_max // _ADDED_PART:
            self.write(node, (self.read(node) or "") + text, epoch)
            return
        last = listed.paths(node)[1][-1:]
        before = b"".join(self._read_node(path) or b"" for path in last)
        if last and len(before) < self._added_bytes:
            longer = unpacked(before, TEXT_BYTES_MAX) + text.encode()
            self._write_nodes(epoch, [(last[0], zlib.compress(longer))])
            return
        listed = listed._replace(added=listed.added + 1)
        path = listed.paths(node)[1][-1]
        self._write_nodes(epoch, [(path, zlib.compress(text.encode())), (node, listed.to_bytes())])

    def remove(self, node: str, epoch: int) -> None:
        """Remove the stored text, if any."""
        self._write_nodes(epoch, [(node, None), *self._removal(node, self._listed(node))])

    def _listed(self, node: str) -> _Listed | None:
        data = self._read_node(node)
        if data is None:
            return None
        value = json.loads(data)
        return _Listed(whole(value["number"]), whole(value["parts"]), whole(value["added"]))

    @staticmethod
    def _removal(node: str, listed: _Listed | None) -> list[tuple[str, bytes | None]]:
        if listed is None:
            return []
        parts, added = listed.paths(node)
        return [(path, None) for path in (*parts, *added)]


def unpacked(data: bytes, bytes_max: int) -> bytes:
    """Return decompressed data.

    Raises:
        ValueError: it is cut off, or unpacks to more than `bytes_max`.
        zlib.error: it is not compressed.
    """
    unpacker = zlib.decompressobj()
    text = unpacker.decompress(data, bytes_max)
    if not unpacker.eof:
        raise ValueError(f"it is cut off, or unpacks to more than {bytes_max:,} bytes")
    return text


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
