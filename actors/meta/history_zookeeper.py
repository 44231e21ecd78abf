"""Schema histories in ZooKeeper, compressed: a shard's node names the parts that its text is in.

    {"number": 1, "parts": 2, "added": 3}     1:0 and 1:1, one compressed text in two parts, then 1:+0
                                              to 1:+2, each a compressed text that continues it

Parts of a whole text are written under a new number, then the node names them, and the parts before them are
removed with that. What continues the text is added to the last node of that kind while it is small.
"""

from __future__ import annotations

import json
import zlib
from typing import NamedTuple, Protocol

from actors.meta.zookeeper import BYTES_MAX, FencedNodes, unpacked
from merge.errors import ConfigError
from merge.values.position import whole

#: limit of characters of an unpacked history
CHARS_MAX = 256 << 20
#: bytes of a node from which on the next addition begins another one
_ADDED_BYTES = 32 << 10
#: characters that one addition holds at most: they fit a node, compressed or not
ADDED_CHARS = BYTES_MAX // 4


class SchemaNodes(Protocol):
    """The paths of histories; `canal_group.zookeeper.tree.Tree` implements it."""

    schema: str


class _Listed(NamedTuple):
    """What a shard's node names."""

    number: int
    parts: int
    added: int

    def to_bytes(self) -> bytes:
        return json.dumps(self._asdict()).encode()

    def paths(self, node: str) -> tuple[list[str], list[str]]:
        """Return the paths of the parts, and of what was added."""
        stem = f"{node}:{self.number}"
        return [f"{stem}:{n}" for n in range(self.parts)], [f"{stem}:+{n}" for n in range(self.added)]


class ZooKeeperHistoryStore:
    """Keeps histories in ZooKeeper, for every server that may be elected.

    Each write is a transaction that also checks the server's epoch. What a write that failed has left of its
    parts is overwritten by the next one.

    Implements `actors.ports.SchemaHistoryStore`.

    Args:
        nodes: the coordinator's connection; its session is shared.
        tree: paths of the nodes.
    """

    def __init__(self, nodes: FencedNodes, tree: SchemaNodes) -> None:
        self._nodes = nodes
        self._tree = tree

    def load(self, shard: str, epoch: int) -> str | None:
        """Return a shard's history; None if there is none.

        Raises:
            FencedError: another epoch is current.
            CoordinatorUnavailable: ZooKeeper did not answer.
            ConfigError: the node does not hold a history.
        """
        self._nodes.require_epoch(epoch)
        node = self._node(shard)
        listed = self._listed(node)
        if listed is None:
            return None
        parts, added = listed.paths(node)
        try:
            # A part that is missing is noticed when the whole is unpacked.
            text = unpacked(b"".join(self._nodes.read(path) or b"" for path in parts), CHARS_MAX)
            text += b"".join(unpacked(self._nodes.read(path) or b"", CHARS_MAX) for path in added)
            return text.decode()
        except (ValueError, zlib.error) as error:
            raise self._damaged(node, error) from error

    def save(self, shard: str, history: str, epoch: int) -> None:
        """Write a shard's history.

        Raises:
            FencedError: another epoch is current; what is read as the history was not changed.
            CoordinatorUnavailable: it is unknown whether it was written; saving it again is harmless.
            ConfigError: the node does not hold a history.
        """
        node = self._node(shard)
        before = self._listed(node)
        data = zlib.compress(history.encode())
        pieces = [data[at : at + BYTES_MAX] for at in range(0, len(data), BYTES_MAX)]
        listed = _Listed(1 - before.number if before is not None else 0, len(pieces), 0)
        *first, last = zip(listed.paths(node)[0], pieces, strict=True)
        for path, piece in first:
            self._nodes.write(epoch, [(path, piece)])
        old = [] if before is None else [*before.paths(node)[0], *before.paths(node)[1]]
        removed: list[tuple[str, bytes | None]] = [(path, None) for path in old]
        if len(last[1]) + sum(map(len, old)) > BYTES_MAX:
            self._nodes.write(epoch, [last])
            self._nodes.write(epoch, [(node, listed.to_bytes()), *removed])
        else:
            self._nodes.write(epoch, [last, (node, listed.to_bytes()), *removed])

    def append(self, shard: str, text: str, epoch: int) -> None:
        """Continue a shard's history. Raises as `save`."""
        node = self._node(shard)
        listed = self._listed(node)
        if listed is None:
            raise self._damaged(node, ValueError("it is missing, and was to be continued"))
        if len(text) > ADDED_CHARS:
            self.save(shard, (self.load(shard, epoch) or "") + text, epoch)
        else:
            self._add(node, listed, text, epoch)

    def _add(self, node: str, listed: _Listed, text: str, epoch: int) -> None:
        """Add a text that fits a node."""
        last = listed.paths(node)[1][-1:]
        before = b"".join(self._nodes.read(path) or b"" for path in last)
        if last and len(before) < _ADDED_BYTES:
            try:
                whole_text = unpacked(before, CHARS_MAX) + text.encode()
            except (ValueError, zlib.error) as error:
                raise self._damaged(node, error) from error
            self._nodes.write(epoch, [(last[0], zlib.compress(whole_text))])
            return
        longer = listed._replace(added=listed.added + 1)
        path = longer.paths(node)[1][-1]
        self._nodes.write(epoch, [(path, zlib.compress(text.encode())), (node, longer.to_bytes())])

    def _node(self, shard: str) -> str:
        return f"{self._tree.schema}/{shard}"

    def _listed(self, node: str) -> _Listed | None:
        data = self._nodes.read(node)
        if data is None:
            return None
        try:
            value = json.loads(data)
            return _Listed(whole(value["number"]), whole(value["parts"]), whole(value["added"]))
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise self._damaged(node, error) from error

    @staticmethod
    def _damaged(node: str, error: Exception) -> ConfigError:
        return ConfigError(
            f"{node} does not hold a schema history ({error}).",
            hint="Remove the node: a new history begins with what the source shows.",
        )
