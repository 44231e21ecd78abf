"""Frames: a closed binlog file, compressed in frames of 1 MiB that are read one by one.

A file without encryption is in zstd's seekable format, so `zstd -d` makes the binlog of it:

    frame ...           a zstd frame for each MiB of the binlog; the last one is shorter
    checks              a skippable frame (0x184D2A50): "CGF1", a CRC32 of each stored frame, a CRC32 of
                        this and of the entries of the seek table
    seek table          a skippable frame (0x184D2A5E): stored and original size of each frame, their
                        number, a zero, the number 0x8F92EAB1

With encryption, each frame is a nonce, the encrypted zstd frame and a tag, see `key`; the rest is the same.

Layout: "Zstandard Seekable Format" in zstd's contrib/seekable_format. All numbers are little-endian.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from canal_group.binlog.archive.forms.key import Key
from canal_group.binlog.archive.forms.readable import Readable, damaged_bytes

FRAME_BYTES: Final = 1 << 20
#: compression level: docs/adr/0033-archive.md has the measurements
LEVEL: Final = 3
_CHECKS_MAGIC: Final = 0x184D2A50
_TABLE_MAGIC: Final = 0x184D2A5E
_SEEKABLE_MAGIC: Final = 0x8F92EAB1
_CHECKS_NAME: Final = b"CGF1"
_SKIPPABLE: Final = struct.Struct("<II")
_ENTRY: Final = struct.Struct("<II")
_FOOTER: Final = struct.Struct("<IBI")
#: frames of the longest file: 1 TiB
_FRAMES_MAX: Final = 1 << 20


class FrameCodec:
    """Makes stored frames of bytes, and bytes of stored frames.

    Args:
        name: the binlog file's name and creation time, to which encryption binds the frames.
        key: encrypts them; None: they are not encrypted.
    """

    def __init__(self, name: str, key: Key | None) -> None:
        self._name, self._key = name, key
        from pyarrow import Codec  # noqa: PLC0415 - it takes time, which a writer needs to begin

        self._zstd = Codec("zstd", compression_level=LEVEL)

    def pack(self, data: bytes, number: int) -> bytes:
        """Return a stored frame of bytes."""
        packed: bytes = self._zstd.compress(data, asbytes=True)
        return packed if self._key is None else self._key.seal(packed, f"{self._name}/frame/{number}")

    def unpack(self, stored: bytes, number: int, size: int) -> bytes | None:
        """Return the bytes of a stored frame; None if it is damaged."""
        packed = stored
        if self._key is not None:
            opened = self._key.open(stored, f"{self._name}/frame/{number}")
            if opened is None:
                return None
            packed = opened
        try:
            data: bytes = self._zstd.decompress(packed, size, asbytes=True)
        except (OSError, ValueError):
            return None
        return data


def frames_of(source: Readable, codec: FrameCodec) -> Iterator[bytes]:
    """Yield the parts of a file of frames for the bytes of a binlog, which must not grow meanwhile."""
    checks, table, at, number = [], b"", 0, 0
    while at < source.size:
        data = source.read_at(at, FRAME_BYTES)
        while len(data) < min(FRAME_BYTES, source.size - at):
            data += source.read_at(at + len(data), FRAME_BYTES - len(data))
        stored = codec.pack(data, number)
        yield stored
        checks.append(zlib.crc32(stored))
        table += _ENTRY.pack(len(stored), len(data))
        at += len(data)
        number += 1
    content = _CHECKS_NAME + struct.pack(f"<{number}I", *checks)
    content += struct.pack("<I", zlib.crc32(content + table))
    table += _FOOTER.pack(number, 0, _SEEKABLE_MAGIC)
    yield _SKIPPABLE.pack(_CHECKS_MAGIC, len(content)) + content
    yield _SKIPPABLE.pack(_TABLE_MAGIC, len(table)) + table


@dataclass(frozen=True, slots=True)
class Frame:
    """Where a frame is."""

    number: int
    #: offset in the stored file
    at: int
    stored: int
    #: offset in the binlog
    begin: int
    size: int
    crc32: int


class FramesFile:
    """Reads a file of frames; it keeps the last frame.

    Args:
        stored: the stored bytes; closed with this object.
        codec: unpacks frames.
        where: its path, for messages.
        size: bytes of the binlog, as the manifest says.

    Raises:
        CorruptEvent: its table is damaged.
    """

    def __init__(self, stored: Readable, codec: FrameCodec, where: str, size: int) -> None:
        self._stored, self._codec, self._where, self._size = stored, codec, where, size
        self.frames = self._table()
        self._last: tuple[int, bytes] = (-1, b"")
        #: how many frames were unpacked
        self.unpacked = 0

    @property
    def size(self) -> int:
        """Bytes of the binlog."""
        return self._size

    def read_at(self, offset: int, size: int) -> bytes:
        """Return bytes from an offset on, at most to the end of their frame."""
        if offset >= self._size:
            return b""
        number, skip = divmod(offset, FRAME_BYTES)
        if self._last[0] != number:
            self._last = number, self._unpacked(self.frames[number])
        data = self._last[1]
        return data if not skip and size >= len(data) else data[skip : skip + size]

    def close(self) -> None:
        """Close the stored bytes."""
        self._stored.close()

    def _unpacked(self, frame: Frame) -> bytes:
        end = frame.begin + frame.size
        stored = self._stored.read_at(frame.at, frame.stored)
        if zlib.crc32(stored) != frame.crc32:
            raise damaged_bytes(self._where, frame.begin, end, f"frame {frame.number} has another checksum")
        data = self._codec.unpack(stored, frame.number, frame.size)
        if data is None or len(data) != frame.size:
            raise damaged_bytes(self._where, frame.begin, end, f"frame {frame.number} cannot be unpacked")
        self.unpacked += 1
        return data

    def _table(self) -> list[Frame]:
        stored, frames = self._stored, []
        try:
            number, _, magic = _FOOTER.unpack(self._tail(stored.size, _FOOTER.size))
            if magic != _SEEKABLE_MAGIC or number > _FRAMES_MAX:
                raise self._damaged("it does not end in a seek table")
            table = self._tail(stored.size - _FOOTER.size, number * _ENTRY.size)
            content_size = len(_CHECKS_NAME) + 4 * number + 4
            content_end = stored.size - _FOOTER.size - len(table) - _SKIPPABLE.size
            content = self._tail(content_end, content_size)
        except struct.error as error:
            raise self._damaged("it is too short for its seek table") from error
        (crc32,) = struct.unpack("<I", content[-4:])
        if crc32 != zlib.crc32(content[:-4] + table):
            raise self._damaged("its seek table has another checksum")
        checks = struct.unpack(f"<{number}I", content[len(_CHECKS_NAME) : -4])
        at = begin = 0
        for index, (size, original) in enumerate(_ENTRY.iter_unpack(table)):
            frames.append(Frame(index, at, size, begin, original, checks[index]))
            at, begin = at + size, begin + original
        if begin != self._size:
            raise self._damaged(f"it holds {begin:,} bytes, and the manifest says {self._size:,}")
        return frames

    def _tail(self, end: int, size: int) -> bytes:
        if end < size:
            raise struct.error("too short")
        return self._stored.read_at(end - size, size)

    def _damaged(self, why: str) -> Exception:
        return damaged_bytes(self._where, 0, self._size, why)
