"""Bytes that no server wrote: an error of ours with file and offset, and never another exception."""

from __future__ import annotations

import random
import struct
import zlib

import pyarrow as pa
import pytest
from support.binlog.binlog_bytes import events_of
from support.binlog.decoding import FILE, FIXTURES, Reading, with_checksum
from support.soak import first_quick

from canal_group.binlog.formats.compression import unpack
from canal_group.binlog.formats.event_types import EventType
from canal_group.binlog.formats.gtid_events import Fields
from canal_group.binlog.formats.payload import EVENTS_FREE, EVENTS_PER_BYTE, PAYLOAD_BYTES_MAX, parse_payload
from canal_group.merge.errors import CorruptEvent, PositionPurged, UnsupportedEvent

FILES = {
    path.stem: path
    for path in [*FIXTURES.glob("*.binlog"), FIXTURES.parent / "mariadb-10.11" / "transactions.binlog"]
    if path.stem not in ("big_transaction", "all_types", "md_minimal")
}
OURS = (CorruptEvent, UnsupportedEvent, PositionPurged)


def feed(events):
    """Return how many rows came of events; an error of ours has file and offset, any other one is raised."""
    reading, error = Reading(), None
    try:
        reading.feed(events, spliced=True)
    except OURS as caught:
        error = caught
    try:
        if error is None:
            reading.close()
    except OURS as caught:  # a stream adds the location to it
        error = reading.decoder.located(caught)
    if error is None:
        return len(reading.rows)
    assert error.details["file"]
    assert error.details["offset"] >= 4
    return None


def resized(event, body, checksum=True):
    """Return an event with another body, its lengths and checksum right."""
    whole = bytearray(event[:19] + body + bytes(4 * checksum))
    struct.pack_into("<I", whole, 9, len(whole))
    struct.pack_into("<I", whole, 13, struct.unpack_from("<I", event, 13)[0] - len(event) + len(whole))
    return with_checksum(bytes(whole)) if checksum else bytes(whole)


@pytest.mark.parametrize("name", FILES)
def test_flipped_bits_under_a_right_checksum(name):
    """The checksum cannot help: what is read must be noticed by what it says, or be another value."""
    chance, events = random.Random(name), events_of(FILES[name].read_bytes())
    for _ in range(60):
        index = chance.randrange(1, len(events))
        event = bytearray(events[index])
        if len(event) < 25:
            continue
        for _ in range(chance.choice((1, 1, 4))):
            event[chance.randrange(19, len(event) - 4)] ^= 1 << chance.randrange(8)
        feed([*events[:index], with_checksum(bytes(event)), *events[index + 1 :]])


@pytest.mark.parametrize("name", FILES)
def test_shortened_and_lengthened_bodies(name):
    chance, events = random.Random(name), events_of(FILES[name].read_bytes())
    for _ in range(30):
        index = chance.randrange(1, len(events))
        body = events[index][19:-4]
        cut = body[: chance.randrange(len(body) + 1)]
        for changed in (cut, body + chance.randbytes(9)):
            feed([*events[:index], resized(events[index], changed), *events[index + 1 :]])


@pytest.mark.parametrize("kind", [*EventType, 99, 255])
def test_random_bytes_after_a_right_header(kind):
    """Of every type, after the format description and inside a transaction."""
    chance, events = random.Random(int(kind)), events_of(FILES["txn_compression"].read_bytes())
    inside = next(i for i, e in enumerate(events) if e[4] == EventType.TABLE_MAP) + 1
    for _ in range(8):
        for before in (events[:1], events[:inside]):
            head = bytearray(events[inside][:19])
            head[4] = kind
            feed([*before, resized(bytes(head), chance.randbytes(chance.randrange(120)))])


#: index after which a fixture's rows are rolled back, and not decoded
ROLLED_BACK = {"xa": 20}
#: size of a rows event whose images are all cut off: it says no rows
EMPTY = {"all_types": 19 + 10 + 1 + 5 + 4}


@pytest.mark.parametrize("name", ["all_types", "xa", "txn_compression", "gtid_tagged"])
def test_a_rows_event_that_is_cut_gives_no_row_less_without_an_error(name):
    path = FILES.get(name, FIXTURES / f"{name}.binlog")
    events = events_of(path.read_bytes())
    rows = (EventType.WRITE_ROWS, EventType.WRITE_ROWS_V1, EventType.TRANSACTION_PAYLOAD, 166, 167, 168)
    assert feed(events) is not None
    for index, event in enumerate(events):
        if event[4] in rows:
            if name in ROLLED_BACK and index > ROLLED_BACK[name]:
                continue
            for cut in range(1, len(event) - 23, 3):
                broken = resized(event, event[19 : -4 - cut])
                refusal = feed([*events[:index], broken, *events[index + 1 :]])
                assert refusal is None or len(broken) == EMPTY.get(name), (index, cut)


def test_a_table_map_with_a_type_that_is_not_known():
    events = events_of(FILES["charsets"].read_bytes())
    index, event = next((i, e) for i, e in enumerate(events) if e[4] == EventType.TABLE_MAP)
    body = bytearray(event[19:-4])
    body[8 + 4 + 4 + 1] = 200
    with pytest.raises(UnsupportedEvent, match="type 200") as caught:
        Reading().feed([*events[:index], resized(event, bytes(body))], spliced=True)
    assert (caught.value.details["file"], caught.value.details["event"]) == (FILE, "TABLE_MAP (19)")


def packed(number):
    return bytes([number]) if number < 251 else b"\xfe" + struct.pack("<Q", number)


def payload(data, *, kind=0, size=None, unpacked=0):
    fields = ((2, packed(kind)), (3, packed(unpacked)), (1, packed(len(data) if size is None else size)))
    return b"".join(bytes([f, len(v)]) + v for f, v in fields) + b"\0" + data


def inner(*, body=b"x" * 30, kind=EventType.QUERY, size=None):
    return struct.pack("<IBIIIH", 1, kind, 1, 19 + len(body) if size is None else size, 0, 0) + body


def zstd(data):
    return pa.Codec("zstd").compress(data, asbytes=True)


def test_payloads_are_unpacked_event_by_event():
    data = inner() + inner(body=b"y" * 3_000_000) + inner(body=b"")
    for body in (payload(zstd(data), unpacked=len(data)), payload(data, kind=255, unpacked=len(data))):
        assert b"".join(parse_payload(body).events()) == data
        assert [len(each) for each in parse_payload(body).events()] == [49, 3_000_019, 19]


@pytest.mark.parametrize("lie", [-1, 1, 19, 1000])
@pytest.mark.parametrize("kind", [0, 255])
def test_a_payload_with_a_lying_size_is_corrupt(kind, lie):
    data = inner() + inner()
    body = payload(zstd(data) if kind == 0 else data, kind=kind, unpacked=len(data) + lie)
    with pytest.raises(CorruptEvent, match="payload says"):
        list(parse_payload(body).events())


def test_a_payload_is_not_unpacked_beyond_what_it_says():
    data = inner(body=bytes(50_000_000))
    with pytest.raises(CorruptEvent, match="has more"):
        list(parse_payload(payload(zstd(data), unpacked=1000)).events())


def test_broken_payloads():
    data = inner() + inner()
    good = zstd(data)
    for body in (
        payload(good, unpacked=len(data), size=len(good) - 1),
        payload(good[:-3], unpacked=len(data)),
        payload(b"no zstd at all", unpacked=len(data)),
        payload(inner(size=5), kind=255, unpacked=49),
        payload(inner(size=1 << 31), kind=255, unpacked=49),
        payload(inner()[:10], kind=255, unpacked=10),
        b"\2\1\0\3\5\1",
    ):
        with pytest.raises(CorruptEvent):
            list(parse_payload(body).events())
    with pytest.raises(UnsupportedEvent, match="Compression algorithm 1"):
        parse_payload(payload(good, kind=1))
    with pytest.raises(UnsupportedEvent, match="the limit is"):
        parse_payload(payload(good, unpacked=PAYLOAD_BYTES_MAX + 1))


@pytest.mark.parametrize(
    "kind", [EventType.GTID, EventType.ROTATE, EventType.FORMAT_DESCRIPTION, EventType.TRANSACTION_PAYLOAD]
)
def test_a_payload_holds_nothing_that_is_about_files(kind):
    events = events_of(FILES["txn_compression"].read_bytes())
    index, event = next((i, e) for i, e in enumerate(events) if e[4] == EventType.TRANSACTION_PAYLOAD)
    body = payload(inner(kind=kind), kind=255, unpacked=49)
    with pytest.raises(CorruptEvent, match="A payload must not hold"):
        Reading().feed([*events[:index], resized(event, body)], spliced=True)


def test_a_payload_without_an_end_and_one_inside_a_transaction():
    events = events_of(FILES["txn_compression"].read_bytes())
    index, event = next((i, e) for i, e in enumerate(events) if e[4] == EventType.TRANSACTION_PAYLOAD)
    begun = next(e for e in events if e[4] == EventType.QUERY and b"BEGIN" in e)
    data = inner(body=begun[19:-4])
    body = payload(data, kind=255, unpacked=len(data))
    with pytest.raises(CorruptEvent, match="has no end"):
        Reading().feed([*events[:index], resized(event, body)], spliced=True)
    with pytest.raises(CorruptEvent, match="inside another"):
        Reading().feed([*events[:index], begun, event], spliced=True)


def compressed_transaction():
    """Return a file's events up to its first compressed transaction, and that one."""
    events = events_of(FILES["txn_compression"].read_bytes())
    index, event = next((i, e) for i, e in enumerate(events) if e[4] == EventType.TRANSACTION_PAYLOAD)
    return events[:index], event


@pytest.mark.soak
def test_a_few_kilobytes_do_not_hold_millions_of_events():
    """The error says where, and what to do; nothing of the millions is kept."""
    before, event = compressed_transaction()
    data = inner(kind=EventType.ROWS_QUERY, body=b"\0") * 1_400_000
    body = payload(zstd(data), unpacked=len(data))
    assert len(body) < 3_500
    assert EVENTS_FREE + EVENTS_PER_BYTE * 3_500 < 1_400_000
    with pytest.raises(UnsupportedEvent, match=r"holds more than 1\d{6} events") as caught:
        Reading().feed([*before, resized(event, body)], spliced=True)
    assert "smaller transactions" in caught.value.hint
    details = caught.value.details
    assert (details["file"], details["offset"], details["event"]) == (
        FILE,
        sum(map(len, before)) + 4,
        "TRANSACTION_PAYLOAD (40)",
    )
    kept = list(zip(range(EVENTS_FREE), parse_payload(body).events(), strict=False))
    assert len(kept) == EVENTS_FREE, "this number is read, however few the bytes are"


@pytest.mark.parametrize("statements", first_quick(2, [1_000, 30_000, 1_000_000]))
def test_as_many_events_as_a_servers_own_come_to_are_read(statements):
    """Statements that are all the same are what comes to the most events a byte."""
    statement = inner(kind=EventType.TABLE_MAP, body=bytes(27)) + inner(
        kind=EventType.WRITE_ROWS, body=bytes(15)
    )
    data = statement * statements
    events = parse_payload(payload(zstd(data), unpacked=len(data))).events()
    assert sum(1 for _ in events) == 2 * statements


@pytest.mark.parametrize("size", [40 * 1_040 + 1, 1 << 29])
def test_an_impossible_decompressed_size_is_refused_before_it_is_read(size):
    zeros = zlib.compress(bytes(1_000_000), 9)
    packed = b"\x84" + (1_000_000).to_bytes(4, "big") + zeros
    assert unpack(packed) == bytes(1_000_000), "the most that zlib makes of a byte"
    with pytest.raises(CorruptEvent, match="more than zlib can"):
        unpack(b"\x84" + size.to_bytes(4, "big") + bytes(35))
    packed = pa.Codec("zstd", 19).compress(bytes(100 << 20), asbytes=True)
    assert parse_payload(payload(packed, unpacked=100 << 20)).unpacked_size == 100 << 20
    with pytest.raises(CorruptEvent, match="more than zstd can"):
        parse_payload(payload(bytes(4_000), unpacked=1 << 29))


def test_a_compressed_transaction_is_one_transaction():
    before, event = compressed_transaction()
    begin = inner(body=struct.pack("<IIBHH", 1, 0, 0, 0, 0) + b"\0BEGIN")
    once = begin + inner(kind=EventType.XID, body=bytes(8))
    Reading().feed([*before, resized(event, payload(once, kind=255, unpacked=len(once)))], spliced=True)
    for twice in (once + once, once + inner(kind=EventType.ROWS_QUERY, body=b"\0")):
        with pytest.raises(CorruptEvent, match="has events after its end"):
            Reading().feed(
                [*before, resized(event, payload(twice, kind=255, unpacked=len(twice)))], spliced=True
            )


def test_mariadbs_packed_bytes():
    whole = bytes.fromhex("8154789c730e7275 0c7155087174f27155482c28d0ab54070014ed031f".replace(" ", ""))
    for broken in (b"", b"\x81", b"\x81\x05", b"\x84\xff\xff\xff\xff", whole[:-1]):
        with pytest.raises((CorruptEvent, IndexError)):
            unpack(broken)
    with pytest.raises(UnsupportedEvent, match="Compression algorithm 1"):
        unpack(b"\x91\x05")


def test_numbers_of_the_serialization_format():
    """A value's bytes are counted by the trailing ones of its first; 0x7f and 0xff are the longest."""
    head = b"\2\x40\0"
    texts = {b"\0": 0, b"\xfe": 127, b"\x01\x02": 128, b"\xfd\xff": 16383, b"\x03\x00\x02": 16384}
    texts[b"\xff" + b"\xff" * 8] = 2**64 - 1
    texts[b"\x7f" + b"\x01" + bytes(6)] = 1
    for data, value in texts.items():
        fields = Fields(head.replace(b"\x40", bytes([2 * (3 + len(data))])) + data)
        assert fields.unsigned() == value
    for broken in (b"", b"\4\2\0", b"\2\xfe\0", b"\2\x0a\0\1", b"\2\x0a\0\xff\1"):
        with pytest.raises((CorruptEvent, UnsupportedEvent)):
            list(Fields(broken).ids(known_max=-1) if len(broken) < 4 else [Fields(broken).unsigned()])
