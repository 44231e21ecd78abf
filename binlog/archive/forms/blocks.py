"""Blocks: a binlog file that is written, encrypted in blocks.

    "CGB1"
    block ...           the number of its bytes (4), their offset in the binlog (8), a nonce (12), its bytes
                        encrypted, a tag (16)

A block is at most `BLOCK_BYTES` of the binlog, and belongs to its offset: `NAME/CREATED/block/OFFSET` is
authenticated with it. What is appended is one block or more; a crash may leave the last one incomplete.

A file that is cut inside a block keeps that block: to write its beginning again could lose it in a crash. A
block that begins before the end of the last one, perhaps without bytes, says that the binlog goes on there.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import Final

from canal_group.binlog.archive.disk import OpenFile
from canal_group.binlog.archive.forms.key import NONCE_BYTES, TAG_BYTES, Key

BLOCK_BYTES: Final = 1 << 16
_MAGIC: Final = b"CGB1"
_HEAD: Final = struct.Struct("<IQ")
_ADDED: Final = _HEAD.size + NONCE_BYTES + TAG_BYTES


@dataclass(frozen=True, slots=True)
class _Block:
    #: offset in the stored file
    at: int
    #: offset in the binlog
    begin: int
    #: bytes of the binlog in the block, and how many of them count
    length: int
    used: int

    @property
    def stored_end(self) -> int:
        return self.at + self.length + _ADDED


class BlocksFile:
    """Reads a file of blocks, and appends to it.

    Args:
        stored: the file; closed with this object.
        key: encrypts.
        name: the binlog file's name and creation time.
    """

    def __init__(self, stored: OpenFile, key: Key, name: str) -> None:
        self._stored, self._key, self._name = stored, key, name
        self._blocks: list[_Block] = []
        self._last: tuple[int, bytes] = (0, b"")
        self._look()

    @property
    def size(self) -> int:
        """Bytes of the binlog in whole blocks."""
        self._look()
        return self._size

    @property
    def torn(self) -> int:
        """Bytes after the last whole block: one is being written, or a crash has left them."""
        return max(0, self._stored.size - self._end) if self._stored.size > len(_MAGIC) else 0

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
        index = bisect_right(self._blocks, offset, key=lambda block: block.begin) - 1
        if index < 0 or offset >= self._blocks[index].begin + self._blocks[index].used:
            return b""
        block = self._blocks[index]
        if self._last[0] != block.at:
            data = self._opened(block.at, block.begin, block.length)
            if data is None:
                return b""
            self._last = block.at, data
        skip = offset - block.begin
        return self._last[1][skip : min(skip + size, block.used)]

    def append(self, data: bytes | memoryview) -> None:
        """Write bytes after the end."""
        with memoryview(data) as view:
            for at in range(0, len(view), BLOCK_BYTES):
                self._put(bytes(view[at : at + BLOCK_BYTES]))

    def truncate(self, size: int) -> None:
        """Cut the file."""
        while self._blocks and self._blocks[-1].begin >= size:
            self._blocks.pop()
        self._stored.truncate(self._end)
        if self._size > size:
            self._blocks[-1] = replace(self._blocks[-1], used=size - self._blocks[-1].begin)
            self._put(b"")

    def sync(self) -> None:
        """Make its content durable."""
        self._stored.sync()

    def close(self) -> None:
        """Close the file."""
        self._stored.close()

    @property
    def _size(self) -> int:
        return self._blocks[-1].begin + self._blocks[-1].used if self._blocks else 0

    @property
    def _end(self) -> int:
        return self._blocks[-1].stored_end if self._blocks else 0

    def _put(self, data: bytes) -> None:
        if not self._blocks:
            self._stored.truncate(0)
            self._stored.append(_MAGIC)
        at, begin = self._end or len(_MAGIC), self._size
        sealed = self._key.seal(data, self._bound(begin))
        self._stored.append(_HEAD.pack(len(data), begin) + sealed)
        self._blocks.append(_Block(at, begin, len(data), len(data)))

    def _look(self) -> None:
        stored, at = self._stored.size, self._end or len(_MAGIC)
        if not self._blocks and self._stored.read_at(0, len(_MAGIC)) != _MAGIC:
            return
        while at + _ADDED <= stored:
            length, begin = _HEAD.unpack(self._stored.read_at(at, _HEAD.size))
            if length > BLOCK_BYTES or begin > self._size or at + length + _ADDED > stored:
                return
            if (begin < self._size or not length) and self._opened(at, begin, length) is None:
                return
            while self._blocks and self._blocks[-1].begin >= begin:
                self._blocks.pop()
            if self._blocks:
                self._blocks[-1] = replace(self._blocks[-1], used=begin - self._blocks[-1].begin)
            self._blocks.append(_Block(at, begin, length, length))
            at += length + _ADDED

    def _opened(self, at: int, begin: int, length: int) -> bytes | None:
        """Return the bytes of a block; None if it is damaged."""
        stored = self._stored.read_at(at + _HEAD.size, length + NONCE_BYTES + TAG_BYTES)
        return self._key.open(stored, self._bound(begin))

    def _bound(self, offset: int) -> str:
        return f"{self._name}/block/{offset}"
