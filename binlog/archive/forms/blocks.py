"""Blocks: a binlog file that is written, encrypted in blocks.

    "CGB1"
    block ...           the number of its bytes (4), a nonce (12), its bytes encrypted, a tag (16)

A block is at most `BLOCK_BYTES` of the binlog, and belongs to its offset: `NAME/CREATED/block/OFFSET` is
authenticated with it. What is appended is one block or more; a crash may leave the last one incomplete.
"""

from __future__ import annotations

import struct
from typing import Final

from canal_group.binlog.archive.disk import OpenFile
from canal_group.binlog.archive.forms.key import NONCE_BYTES, TAG_BYTES, Key

BLOCK_BYTES: Final = 1 << 16
_MAGIC: Final = b"CGB1"
_HEAD: Final = struct.Struct("<I")
_ADDED: Final = _HEAD.size + NONCE_BYTES + TAG_BYTES


class BlocksFile:
    """Reads a file of blocks, and appends to it.

    Args:
        stored: the file; closed with this object.
        key: encrypts.
        name: the binlog file's name and creation time.
    """

    def __init__(self, stored: OpenFile, key: Key, name: str) -> None:
        self._stored, self._key, self._name = stored, key, name
        #: where each block begins: in the stored file, and in the binlog
        self._blocks: list[tuple[int, int, int]] = []
        self._end = len(_MAGIC)
        self._size = 0
        self._last: tuple[int, bytes] = (-1, b"")
        self._look()

    @property
    def size(self) -> int:
        """Bytes of the binlog in whole blocks."""
        self._look()
        return self._size

    @property
    def torn(self) -> int:
        """Bytes after the last whole block: one is being written, or a crash has left them."""
        return self._stored.size - self._end if self._stored.size > len(_MAGIC) else 0

    @property
    def stored_size(self) -> int:
        """Bytes of the file."""
        return self._stored.size

    def read_at(self, offset: int, size: int) -> bytes:
        """Return bytes from an offset on, at most to the end of their block; none: they cannot be decrypted.

        A block that a crash has left damaged looks like the end of the file.
        """
        if offset >= self._size:
            self._look()
        index = next((i for i in self._near(offset) if self._holds(i, offset)), None)
        if index is None:
            return b""
        at, begin, length = self._blocks[index]
        if self._last[0] != index:
            stored = self._stored.read_at(at + _HEAD.size, length + _ADDED - _HEAD.size)
            data = self._key.open(stored, self._bound(begin))
            if data is None:
                return b""
            self._last = index, data
        skip = offset - begin
        return self._last[1][skip : skip + size]

    def append(self, data: bytes | memoryview) -> None:
        """Write bytes after the end."""
        if not self._size and self._stored.size != len(_MAGIC):
            self._stored.truncate(0)
            self._stored.append(_MAGIC)
        with memoryview(data) as view:
            for at in range(0, len(view), BLOCK_BYTES):
                part = bytes(view[at : at + BLOCK_BYTES])
                sealed = self._key.seal(part, self._bound(self._size))
                self._stored.append(_HEAD.pack(len(part)) + sealed)
                self._blocks.append((self._end, self._size, len(part)))
                self._end += len(part) + _ADDED
                self._size += len(part)

    def truncate(self, size: int) -> None:
        """Cut the file; the block in which it is cut is written again."""
        rest = b""
        while self._blocks and self._size > size:
            at, begin, _ = self._blocks[-1]
            if begin < size:
                rest = self.read_at(begin, size - begin)
            self._blocks.pop()
            self._last = (-1, b"")
            self._end, self._size = at, begin
        self._stored.truncate(self._end if self._blocks else 0)
        self.append(rest)

    def sync(self) -> None:
        """Make its content durable."""
        self._stored.sync()

    def close(self) -> None:
        """Close the file."""
        self._stored.close()

    def _near(self, offset: int) -> range:
        """Return the indexes of the blocks that may hold an offset, by binary search."""
        low, high = 0, len(self._blocks)
        while low < high:
            middle = (low + high) // 2
            if self._blocks[middle][1] <= offset:
                low = middle + 1
            else:
                high = middle
        return range(max(0, low - 1), low)

    def _holds(self, index: int, offset: int) -> bool:
        _, begin, length = self._blocks[index]
        return begin <= offset < begin + length

    def _look(self) -> None:
        """Note the blocks that were written since."""
        stored = self._stored.size
        if not self._blocks and self._stored.read_at(0, len(_MAGIC)) != _MAGIC:
            return
        while self._end + _ADDED < stored:
            (length,) = _HEAD.unpack(self._stored.read_at(self._end, _HEAD.size))
            if not 0 < length <= BLOCK_BYTES or self._end + length + _ADDED > stored:
                return
            self._blocks.append((self._end, self._size, length))
            self._end += length + _ADDED
            self._size += length

    def _bound(self, offset: int) -> str:
        return f"{self._name}/block/{offset}"
