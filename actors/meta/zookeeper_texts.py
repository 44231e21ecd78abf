"""Texts in ZooKeeper, compressed: a text's node names the parts that it is in.

    {"number": 1, "parts": 2, "added": 3}     1:0 and 1:1, one compressed text in two parts, then 1:+0
                                              to 1:+2, each a compressed text that continues it

Parts of a whole text are written under a new number, then the node names them, and the parts before them are
removed with that. What continues the text is added to the last node of that kind while it is small. What a
write that failed has left of its parts is overwritten by the next one.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

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
