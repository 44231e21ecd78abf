"""Stored forms: any range of bytes, one frame at a time; damage and wrong keys are named."""

from __future__ import annotations

import shutil
import subprocess
from random import Random

import pytest
from support.binlog.archived import KEYS, content, recorded, written

from canal_group.binlog.archive.archive import Archive
from canal_group.binlog.archive.disk import Disk
from canal_group.binlog.archive.forms.blocks import BlocksFile
from canal_group.binlog.archive.forms.frames import FRAME_BYTES, FrameCodec, FramesFile, frames_of
from canal_group.binlog.archive.forms.key import NO_KEYS, Key, Keys, read_keys
from canal_group.binlog.archive.forms.readable import ReadableStream
from canal_group.merge.errors import ConfigError, CorruptEvent, SourceUnfit

NAME = "mysql-bin.000001/1795193265"
KEY = KEYS.first


class Bytes:
    def __init__(self, data):
        self.data, self.size = data, len(data)

    def read_at(self, offset, size):
        return bytes(self.data[offset : offset + size])

    def close(self):
        pass


@pytest.fixture(scope="module")
def data():
    return Random(1).randbytes(FRAME_BYTES // 2) * 5 + b"the end"


@pytest.mark.parametrize("key", [None, KEY], ids=["clear", "encrypted"])
def test_a_start_in_the_middle_unpacks_one_frame(data, key):
    stored = b"".join(frames_of(Bytes(data), FrameCodec(NAME, key)))
    file = FramesFile(Bytes(stored), FrameCodec(NAME, key), "here", len(data))
    assert len(file.frames) == 3
    at = FRAME_BYTES + 4711
    assert file.read_at(at, 100) == data[at : at + 100]
    assert file.unpacked == 1
    stream = ReadableStream(file)
    assert stream.read() == data
    random = Random(2)
    for _ in range(50):
        at, size = random.randrange(len(data)), random.randrange(1, 3000)
        stream.seek(at)
        assert stream.read(size) == data[at : at + size]


@pytest.mark.parametrize("key", [None, KEY], ids=["clear", "encrypted"])
def test_any_damage_of_frames_is_named(data, key):
    codec = FrameCodec(NAME, key)
    stored = b"".join(frames_of(Bytes(data), codec))
    random = Random(3)
    ends = [random.randrange(len(stored)) for _ in range(20)]
    for at in [*(random.randrange(len(stored)) for _ in range(60)), *range(len(stored) - 60, len(stored))]:
        broken = stored[:at] + bytes([stored[at] ^ 1 << random.randrange(8)]) + stored[at + 1 :]
        read_or_named(broken, codec, data)
    for end in ends:
        read_or_named(stored[:end], codec, data, cut=True)


def read_or_named(stored, codec, data, *, cut=False):
    """Compare what is read; a bit of a skippable frame's head is not looked at."""
    named = None
    try:
        found = ReadableStream(FramesFile(Bytes(stored), codec, "here", len(data))).read()
    except CorruptEvent as error:
        named = error
    if named is None:
        assert found == data
        assert not cut
    else:
        assert "here" in str(named)
        assert named.details["end"] > named.details["begin"]


def test_zstd_makes_the_binlog_of_a_file(data, tmp_path):
    zstd = shutil.which("zstd")
    if zstd is None:
        pytest.skip("zstd is not installed")
    stored = b"".join(frames_of(Bytes(data), FrameCodec(NAME, None)))
    made = subprocess.run([zstd, "-dc"], input=stored, capture_output=True, check=True)
    assert made.stdout == data


def test_blocks_are_cut_where_a_crash_has_torn_them(tmp_path):
    disk, path = Disk(), tmp_path / "file"
    parts = [Random(number).randbytes(size) for number, size in enumerate([10, 70_000, 300, 1])]
    file = BlocksFile(disk.create(path), KEY, NAME)
    for part in parts:
        file.append(part)
    whole = b"".join(parts)
    assert ReadableStream(BlocksFile(disk.open(path), KEY, NAME)).read() == whole
    stored = path.read_bytes()
    for cut in (*range(40), len(stored) - 300, len(stored) - 1):
        path.write_bytes(stored[: cut or None])
        torn = BlocksFile(disk.open(path, append=True), KEY, NAME)
        kept = torn.size
        assert ReadableStream(torn).read() == whole[:kept]
        torn = BlocksFile(disk.open(path, append=True), KEY, NAME)
        torn.truncate(max(0, kept - 5))
        torn.append(b"more")
        again = ReadableStream(BlocksFile(disk.open(path), KEY, NAME)).read()
        assert again == whole[: max(0, kept - 5)] + b"more"


def test_a_key_file_has_sentences_for_what_is_wrong(tmp_path):
    path = tmp_path / "archive.key"
    with pytest.raises(ConfigError, match="cannot be read"):
        read_keys(path)
    path.write_text("secret\n")
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="64 hexadecimal digits"):
        read_keys(path)
    path.write_text("ab" * 32 + "\n")
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="Others may read"):
        read_keys(path)
    path.chmod(0o600)
    assert read_keys(path).first.id == Key(b"\xab" * 32).id


def test_a_rotated_key_reads_what_the_old_one_wrote(tmp_path):
    files = recorded()
    written(tmp_path, files, keys=KEYS)
    new = Key(b"n" * 32)
    (history,) = Archive(Disk(), tmp_path, Keys((new, KEY))).histories()
    assert content(history, next(iter(files))) == files[next(iter(files))]
    (history,) = Archive(Disk(), tmp_path, Keys((new,))).histories()
    with pytest.raises(SourceUnfit, match=f"key {KEY.id}, but the key file has {new.id}"):
        history.open(next(iter(files)))
    assert NO_KEYS.first is None
