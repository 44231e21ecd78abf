"""Fuzzing: real binlogs with random damage must be decoded or refused, without any other outcome.

As a program it runs for some minutes: `python -m support.binlog.fuzz MINUTES [SEED]`, with `tests` in the
PYTHONPATH, is what `make fuzz MINUTES=n` runs first. Every try has its own seed; a failure prints it, and
`python -m support.binlog.fuzz 0 SEED` repeats it.

The complete file parser reads each damaged file. Its errors must be ours, with file and offset, and its
arrays must be valid. Most checksums are corrected after the damage, because otherwise no code after the
checksum would be tested.
"""

from __future__ import annotations

import random
import struct
import sys
import tempfile
import time
import zlib
from functools import cache
from pathlib import Path

from support.binlog.binlog_bytes import events_of
from support.defaults import chunk_limits

from canal_group.binlog.files.binlog_files import BinlogFiles
from canal_group.binlog.formats.event_types import EventType
from canal_group.merge.errors import CorruptEvent, PositionPurged, UnsupportedEvent
from canal_group.merge.values.chunk import TableName

FIXTURES = Path(__file__).parents[2] / "fixtures"
#: larger files would take as long as many small ones
_FILE_BYTES_MAX = 40_000
_HEADER = 19
OURS = (CorruptEvent, UnsupportedEvent, PositionPurged)


@cache
def corpus():
    """Return (name, magic, events, whether they have checksums) of each fixture."""
    found = []
    for path in sorted(FIXTURES.glob("*/*.binlog")):
        data = path.read_bytes()
        if len(data) <= _FILE_BYTES_MAX:
            events = tuple(events_of(data))
            found.append((f"{path.parent.name}/{path.name}", data[:4], events, _has_checksums(events)))
    return found


def _has_checksums(events):
    last = events[-1]
    return zlib.crc32(last[:-4]) == struct.unpack("<I", last[-4:])[0]


def damaged(chance):
    """Return the name of a fixture and its bytes, damaged."""
    name, magic, events, checksums = chance.choice(corpus())
    events = list(events)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        events = chance.choice(_DAMAGES)(chance, events, checksums)
    data = magic + b"".join(_placed(events, checksums) if chance.random() < 0.8 else events)
    if chance.random() < 0.15:
        data = data[: chance.randrange(len(data) + 1)]
    return name, data


def _body(event, checksums):
    return event[_HEADER : len(event) - 4 * checksums]


def _with_body(event, body, checksums):
    size = struct.pack("<I", _HEADER + len(body) + 4 * checksums)
    return event[:9] + size + event[13:_HEADER] + body + bytes(4 * checksums)


def _placed(events, checksums):
    """Return events with end offsets and checksums corrected for their new positions."""
    at, placed = 4, []
    for event in events:
        at += len(event)
        whole = event[:13] + struct.pack("<I", at & 0xFFFFFFFF) + event[17:]
        if checksums and len(whole) >= _HEADER + 4:
            whole = whole[:-4] + struct.pack("<I", zlib.crc32(whole[:-4]))
        placed.append(whole)
    return placed


def _change_one(change):
    def damage(chance, events, checksums):
        index = chance.randrange(len(events))
        events[index] = change(chance, events[index], checksums)
        return events

    return damage


def _flip_bits(chance, event, checksums):
    changed = bytearray(event)
    for _ in range(chance.choice((1, 1, 2, 8))):
        at = chance.choice((4, chance.randrange(len(changed)), chance.randrange(len(changed))))
        changed[at] ^= 1 << chance.randrange(8)
    if chance.random() < 0.9:
        changed[9:13] = struct.pack("<I", len(changed))
    return bytes(changed)


def _set_number(chance, event, checksums):
    """Overwrite some bytes with the limit of a number's range, because lengths are such numbers."""
    body = bytearray(_body(event, checksums))
    if not body:
        return event
    at, size = chance.randrange(len(body)), chance.choice((1, 1, 2, 4, 8))
    edges = (0, 1, 0x7F, 0x80, 0xFB, 0xFC, 0xFE, 0xFF, 0x7FFFFFFF, 0x80000000, 2**64 - 1)
    number = chance.choice((*edges, chance.getrandbits(64)))
    body[at : at + size] = (number & (256**size - 1)).to_bytes(size, chance.choice(("little", "big")))
    return _with_body(event, bytes(body), checksums)


def _cut(chance, event, checksums):
    body = _body(event, checksums)
    return _with_body(event, body[: chance.randrange(len(body) + 1)], checksums)


def _lengthen(chance, event, checksums):
    return _with_body(event, _body(event, checksums) + chance.randbytes(chance.randint(1, 60)), checksums)


def _randomize(chance, event, checksums):
    return _with_body(event, chance.randbytes(chance.randrange(120)), checksums)


def _retype(chance, event, checksums):
    return event[:4] + bytes([chance.choice((*EventType, chance.randrange(256)))]) + event[5:]


def _lie_about_size(chance, event, checksums):
    size = chance.choice((0, 18, len(event) - 1, len(event) + 7, 2**31, 2**32 - 1))
    return event[:9] + struct.pack("<I", size) + event[13:]


def _splice(chance, events, checksums):
    """Insert events of another file."""
    _, _, others, others_checksums = chance.choice(corpus())
    begin = chance.randrange(len(others))
    taken = [
        _with_body(event, _body(event, others_checksums), checksums)
        for event in others[begin : begin + chance.randint(1, 8)]
    ]
    at = chance.randrange(1, len(events) + 1)
    return events[:at] + taken + events[at:]


def _leave_out(chance, events, checksums):
    begin = chance.randrange(len(events))
    return events[:begin] + events[begin + chance.randint(1, 3) :] or events


def _repeat(chance, events, checksums):
    at = chance.randrange(len(events))
    return events[:at] + [events[at]] * chance.randint(1, 3) + events[at:]


def _swap(chance, events, checksums):
    one, two = (chance.randrange(len(events)) for _ in range(2))
    events[one], events[two] = events[two], events[one]
    return events


_CHANGES = (
    _flip_bits,
    _flip_bits,
    _set_number,
    _set_number,
    _cut,
    _lengthen,
    _randomize,
    _retype,
    _lie_about_size,
)
_DAMAGES = (
    *map(_change_one, _CHANGES),
    _splice,
    _leave_out,
    _repeat,
    _swap,
)


def attempt(seed, folder):
    """Read one damaged file; return whether it was refused.

    Raises:
        AssertionError: an error without file and offset, or an invalid array.
        Exception: any error that is not ours.
    """
    chance = random.Random(seed)
    _, data = damaged(chance)
    path = folder / "mysql-bin.000001"
    path.write_bytes(data)
    error = _error_of(chance, path)
    if error is not None:
        assert error.details["file"] == path.name, error
        assert isinstance(error.details["offset"], int), error
    return error is not None


def _error_of(chance, path):
    limits = chunk_limits(rows_max=chance.choice((1, 3, 10_000)))
    try:
        for chunk in BinlogFiles([path], TableName, limits, verbatim=chance.random() < 0.5):
            for table in chunk.tables:
                table.rows.validate(full=True)
            if chunk.statements is not None:
                chunk.statements.validate(full=True)
    except OURS as error:
        if "defect" in error.details:
            raise
        return error
    return None


def run(minutes, first):
    """Try seeds from `first` on for some minutes, at least one seed; print failures and counts."""
    deadline = time.monotonic() + 60 * minutes
    tried = refused = failed = 0
    with tempfile.TemporaryDirectory(prefix="canal-group-fuzz-") as folder:
        while not tried or time.monotonic() < deadline:
            seed = first + tried
            try:
                refused += attempt(seed, Path(folder))
            except Exception as error:  # noqa: BLE001 - whatever it is, it was found
                failed += 1
                sys.stdout.write(f"seed {seed}: {type(error).__name__}: {error}\n")
            tried += 1
    sys.stdout.write(f"{tried} damaged binlogs from seed {first} on: {refused} refused, {failed} failed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    minutes, *given = sys.argv[1:]
    sys.exit(run(float(minutes), int(given[0]) if given else random.randrange(10**9)))
