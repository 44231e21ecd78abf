"""Schema histories in ZooKeeper, compressed: in a shard's node, or in parts if one node is too small.

Parts are written under a new number, then the node names them, and the parts before them are removed with
that.
"""

from __future__ import annotations

import json
import zlib
from typing import Protocol

from actors.meta.zookeeper import BYTES_MAX, FencedNodes, unpacked
from merge.errors import ConfigError

#: what is in the node itself begins with this; a list of parts begins with a brace
_INLINE = b"zlib\n"
#: limit of characters of an unpacked history
CHARS_MAX = 256 << 20


class SchemaNodes(Protocol):
    """The paths of histories; `canal_group.zookeeper.tree.Tree` implements it."""

    schema: str


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
        data = self._nodes.read(node)
        if data is None:
            return None
        try:
            if not data.startswith(_INLINE):
                # A part that is missing is noticed when the whole is unpacked.
                data = _INLINE + b"".join(self._nodes.read(path) or b"" for path in self._parts(node, data))
            return unpacked(data, CHARS_MAX).decode()
        except (KeyError, TypeError, ValueError, zlib.error) as error:
            raise ConfigError(
                f"{node} does not hold a schema history ({error}).",
                hint="Remove the node: a new history begins with what the source shows.",
            ) from error

    def save(self, shard: str, history: str, epoch: int) -> None:
        """Write a shard's history.

        Raises:
            FencedError: another epoch is current; what is read as the history was not changed.
            CoordinatorUnavailable: it is unknown whether it was written; saving it again is harmless.
        """
        node = self._node(shard)
        before = self._nodes.read(node)
        old = [] if before is None or before.startswith(_INLINE) else self._parts(node, before)
        data = zlib.compress(history.encode())
        if len(data) + len(_INLINE) <= BYTES_MAX:
            self._nodes.write(epoch, [(node, _INLINE + data), *((path, None) for path in old)])
            return
        number = 1 if before is None or before.startswith(_INLINE) else 1 - int(json.loads(before)["number"])
        pieces = [data[at : at + BYTES_MAX] for at in range(0, len(data), BYTES_MAX)]
        listed = json.dumps({"number": number, "parts": len(pieces)}).encode()
        for path, piece in zip(self._parts(node, listed), pieces, strict=True):
            self._nodes.write(epoch, [(path, piece)])
        self._nodes.write(epoch, [(node, listed), *((path, None) for path in old)])

    def _node(self, shard: str) -> str:
        return f"{self._tree.schema}/{shard}"

    @staticmethod
    def _parts(node: str, listed: bytes) -> list[str]:
        value = json.loads(listed)
        return [f"{node}:{int(value['number'])}:{part}" for part in range(int(value["parts"]))]
