"""Packets with the two bytes of semi-synchronous replication, also damaged ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.defaults import chunk_limits

from canal_group.binlog.grammar.binlog_decoder import BinlogDecoder
from canal_group.binlog.grammar.chunk_builder import ChunkBuilder
from canal_group.binlog.native.packets import PacketBuffer
from canal_group.merge.values.chunk import TableName
from canal_group.merge.values.position import Position

FULL = 0xFFFFFF


def packet(number, payload):
    return len(payload).to_bytes(3, "little") + bytes([number % 256]) + payload


def receive(buffer, data):
    """Take bytes in, and return the payloads that are whole."""
    found = []
    for at in range(0, len(data), 1 << 20):
        piece = data[at : at + (1 << 20)]
        while len(piece):
            buffer.make_room()
            size = min(len(piece), memoryview(buffer).nbytes)
            memoryview(buffer)[:size] = piece[:size]
            buffer.received(size)
            piece = piece[size:]
        while (payload := buffer.take()) is not None:
            found.append(payload)
    return found


def events(*marked):
    """Return events as a source sends them to a semi-synchronous replica; `marked` has (waits, event)."""
    data, number = b"", 1
    for waits, event in marked:
        payload = b"\0\xef" + bytes([waits]) + event
        while True:
            data += packet(number, payload[:FULL])
            number, payload, last = number + 1, payload[FULL:], len(payload) < FULL
            if last:
                break
        if waits:
            number = 1
    return data


def test_the_two_bytes_are_left_out():
    buffer = PacketBuffer(semi_sync=True)
    assert receive(buffer, events((0, b"one"), (0, b""))) == [b"\0one", b"\0"]
    assert not buffer.reply_awaited


def test_a_source_that_waits_counts_from_one_again():
    buffer = PacketBuffer(semi_sync=True)
    assert receive(buffer, events((0, b"one"), (1, b"two"), (0, b"three"))) == [
        b"\0one",
        b"\0two",
        b"\0three",
    ]
    assert buffer.reply_awaited


@pytest.mark.parametrize("size", [FULL - 4, FULL - 3, FULL - 2, FULL, 2 * FULL - 3])
def test_only_the_first_of_several_packets_has_them(size):
    event = bytes(size - 1) + b"!"
    buffer = PacketBuffer(semi_sync=True)
    found = receive(buffer, events((1, event), (0, b"next")))
    assert found == [b"\0" + event, b"\0next"]


@pytest.mark.parametrize("payload", [b"\0", b"\0\xef", b"\0\xee\0event", b"\0event", b"\0\xef\2event"])
def test_an_event_without_them_is_refused(payload):
    with pytest.raises(LookupError, match=payload[:3].hex()):
        receive(PacketBuffer(semi_sync=True), packet(1, payload))


@pytest.mark.parametrize("payload", [b"\xffbye", b"\xfe", b""])
def test_other_packets_have_no_semi_sync_bytes(payload):
    assert receive(PacketBuffer(semi_sync=True), packet(1, payload)) == [payload]


def decoder_of(builder):
    decoder = BinlogDecoder("s1", Position("mysql-bin.000001", 4), TableName, builder, checksum=0)
    builder.fast_path.is_open = True
    return decoder


@given(st.lists(st.binary(max_size=40), max_size=8), st.data())
def test_any_bytes_are_taken_or_refused(payloads, data):
    """The fast path and `take` agree on where a packet ends, whatever the bytes are."""
    heads = st.sampled_from([b"", b"\0", b"\0\xef", b"\0\xef\0", b"\0\xef\1", b"\0\xef\2", b"\xff"])
    payloads = [data.draw(heads) + payload for payload in payloads]
    sent = b"".join(packet(number, payload) for number, payload in enumerate(payloads, start=1))
    buffer = PacketBuffer(semi_sync=True)
    decoder = decoder_of(ChunkBuilder(chunk_limits()))
    buffer.make_room()
    memoryview(buffer)[: len(sent)] = sent
    buffer.received(len(sent))
    for payload in payloads:
        before = len(buffer)
        decoder.run(buffer)
        if len(buffer) != before:
            return  # an event of random bytes was read: the numbers go on from there
        marked = payload[:1] == b"\0"
        try:
            taken = buffer.take()
        except LookupError:
            assert marked
            assert payload[1:3] not in (b"\xef\0", b"\xef\1")
            return
        except ValueError:
            return  # a source that waits counts from 1 again, and these packets do not
        assert taken == (b"\0" + payload[3:] if marked else payload)
