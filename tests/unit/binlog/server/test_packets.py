"""Packets over a real pair of sockets."""

from __future__ import annotations

import datetime as dt
import socket
import ssl
import struct
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from canal_group.binlog.native.packets import PacketBuffer, events_of
from canal_group.binlog.server.dump.spool import AheadEndsError, Spool
from canal_group.binlog.server.packets import PacketReader
from canal_group.merge.errors import SourceUnavailable

FULL = 0xFFFFFF


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield PacketReader(ours, 2.0), theirs


def packet(number, payload):
    return len(payload).to_bytes(3, "little") + bytes([number]) + payload


def test_packets_split_anywhere(pair):
    reader, theirs = pair
    data = packet(1, b"one") + packet(2, b"") + packet(3, b"three" * 10)
    found = []
    for byte in data:
        theirs.sendall(bytes([byte]))
        reader.fill()
        while (payload := reader.take()) is not None:
            found.append(payload)
    assert found == [b"one", b"", b"three" * 10]
    assert reader.empty


@pytest.mark.parametrize("bytes_max", [1 << 30, 2 << 20])
def test_packets_that_were_read_ahead_are_read_again(pair, bytes_max):
    """Wherever reading ahead begins, and whether or not the spool is full before its end."""
    reader, theirs = pair
    payloads = [b"one", b"two", *(bytes([number]) * 40_000 for number in range(100)), b"last"]
    data = b"".join(packet(number, each) for number, each in enumerate(payloads, start=1))
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(theirs.sendall, data)
        while (first := reader.take()) is None:
            reader.fill()
        ahead, found = reader.ahead(Spool(bytes_max)), []
        try:
            while found[-1:] != [b"last"]:
                taken = ahead.take()
                if taken is None:
                    ahead.fill()
                else:
                    found.append(taken)
        except AheadEndsError:
            assert bytes_max < len(data)
        assert found == payloads[1 : 1 + len(found)]
        again = [first]
        while len(again) < len(payloads):
            taken = reader.take()
            if taken is None:
                assert reader.readable(2.0)
                reader.fill()
            else:
                again.append(taken)
        sent.result()
    assert again == payloads
    assert not reader.readable(), "nothing is left of the spool"
    theirs.sendall(packet(len(payloads) + 1, b"more"))
    reader.fill()
    assert reader.take() == b"more"


def test_dry_and_waiting_are_told_apart(pair):
    reader, theirs = pair
    assert reader.take() is None
    assert reader.empty
    assert not reader.readable()
    theirs.sendall(packet(1, b"x")[:3])
    assert reader.readable()
    reader.fill()
    assert not reader.readable()
    assert not reader.empty, "a part of a packet is held"
    theirs.sendall(packet(1, b"x")[3:])
    reader.fill()
    assert reader.take() == b"x"


@pytest.mark.parametrize("size", [FULL - 1, FULL, FULL + 1, 2 * FULL])
def test_payloads_of_sixteen_megabytes_come_in_several_packets(pair, size):
    reader, theirs = pair
    payload = bytes(size - 1) + b"!"
    parts = [payload[at : at + FULL] for at in range(0, size, FULL)]
    if len(parts[-1]) == FULL:
        parts.append(b"")
    data = b"".join(packet(number, part) for number, part in enumerate(parts, start=1))
    sender = threading.Thread(target=theirs.sendall, args=(data + packet(len(parts) + 1, b"next"),))
    sender.start()
    found = []
    while len(found) < 2:
        taken = reader.take()
        if taken is None:
            reader.fill()
        else:
            found.append(taken)
    sender.join()
    assert found[0] == payload
    assert found[1] == b"next"


@pytest.fixture
def tls_pair(tmp_path):
    """Two ends of an encrypted connection."""
    key, now = ec.generate_private_key(ec.SECP256R1()), dt.datetime.now(dt.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "source")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + dt.timedelta(days=1))
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = tmp_path / "source.pem"
    path.write_bytes(private + certificate)
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    server.load_cert_chain(path)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    ours, theirs = socket.socketpair()
    with ThreadPoolExecutor(1) as pool:
        accepted = pool.submit(server.wrap_socket, theirs, server_side=True)
        with client.wrap_socket(ours) as mine, accepted.result() as other:
            yield mine, other


def test_packets_over_tls(tls_pair):
    """What OpenSSL has decrypted and not handed out counts as arrived: the socket itself looks empty."""
    ours, theirs = tls_pair
    reader = PacketReader(ours, 2.0)
    payloads = [b"one", bytes(40_000), bytes(FULL) + b"end", b"last"]
    parts = [payloads[0], payloads[1], bytes(FULL), b"end", payloads[3]]
    data = b"".join(packet(number, part) for number, part in enumerate(parts, start=1))
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(theirs.sendall, data)
        found = []
        while len(found) < len(payloads):
            taken = reader.take()
            if taken is None:
                reader.fill()
            else:
                found.append(taken)
        sent.result()
    assert found == payloads
    assert reader.empty
    theirs.sendall(packet(6, b"x"))
    assert ours.recv(1) == b"\1"
    assert reader.readable()
    assert ours.pending() == 4


def test_numbers_run_on_and_around(pair):
    reader, theirs = pair
    theirs.sendall(b"".join(packet(number % 256, b"p") for number in range(1, 600)))
    count = 0
    while count < 599:
        if reader.take() is None:
            reader.fill()
        else:
            count += 1


def test_the_buffer_has_a_bound():
    """No page of it is touched: a gibibyte of room costs nothing."""
    buffer = PacketBuffer()
    memoryview(buffer)[:4] = b"\xff\xff\xff\1"
    while len(buffer) <= 1 << 30:
        buffer.make_room()
        buffer.received(memoryview(buffer).nbytes)
    assert len(buffer) < (1 << 30) + (1 << 20)
    with pytest.raises(OverflowError):
        buffer.make_room()


def test_the_buffer_shrinks_again():
    buffer = PacketBuffer()
    room = memoryview(buffer).nbytes
    payload = bytes(3 * room)
    data = packet(1, payload)
    for at in range(0, len(data), 50_000):
        buffer.make_room()
        piece = data[at : at + 50_000]
        memoryview(buffer)[: len(piece)] = piece
        buffer.received(len(piece))
    assert memoryview(buffer).nbytes > room
    assert buffer.take() == payload
    buffer.make_room()
    assert memoryview(buffer).nbytes == room


def test_the_buffer_does_not_move_while_it_is_filled():
    buffer = PacketBuffer()
    with memoryview(buffer) as view:
        with pytest.raises(BufferError):
            buffer.make_room()
        with pytest.raises(ValueError, match="more than there was room for"):
            buffer.received(view.nbytes + 1)
    buffer.make_room()


def test_a_stream_out_of_step_ends(pair):
    reader, theirs = pair
    theirs.sendall(packet(7, b"?"))
    reader.fill()
    with pytest.raises(SourceUnavailable, match="out of sequence"):
        reader.take()


def test_an_error_out_of_turn_is_handed_on(pair):
    """MariaDB numbers the error by which it says goodbye with 0."""
    reader, theirs = pair
    theirs.sendall(packet(0, b"\xffbye"))
    reader.fill()
    assert reader.take() == b"\xffbye"


def test_silence_is_noticed():
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(SourceUnavailable, match="not even a heartbeat"):
        PacketReader(ours, 0.05).fill()


def test_closed_and_interrupted(pair):
    reader, _ = pair
    waiting = threading.Timer(0.05, reader.interrupt)
    waiting.start()
    with pytest.raises(SourceUnavailable):
        reader.fill()
    waiting.join()
    reader.interrupt()


def event(kind, size, end, flags=0):
    """Return an event of a type that ends at an offset; its bytes say nothing."""
    return struct.pack("<IBIIIH", 1, kind, 1, size, end, flags) + bytes(size - 19)


def test_a_run_is_copied_up_to_what_says_where_the_stream_is():
    """A dump server copies usual events without a step for each, and looks at all others one by one."""
    usual = [
        event(30, 40, 140),
        event(16, 31, 171),
        event(30, 25, 200),
    ]  # 4 bytes were left out before the last
    data = b"".join(packet(number + 1, b"\0" + each) for number, each in enumerate(usual))
    unusual = {
        "rotate": event(4, 40, 240),
        "format description": event(15, 40, 240),
        "heartbeat": event(27, 40, 240),
        "heartbeat of a long file": event(41, 40, 240),
        "not in the file": event(30, 40, 0),
        "made for the stream": event(30, 40, 240, flags=0x20),
        "back in the file": event(30, 40, 239),
        "of another size than it says": event(30, 40, 240)[:-1],
    }
    for name, other in unusual.items():
        buffer = PacketBuffer()
        for piece in (data, packet(4, b"\0" + other), packet(5, b"\xff...")):
            buffer.make_room()
            memoryview(buffer)[: len(piece)] = piece
            buffer.received(len(piece))
        run, end = buffer.take_run(100)
        assert (run, end) == (b"".join(packet(0, b"\0" + each) for each in usual), 200), name
        assert buffer.take_run(end) == (b"", 200), name
        assert buffer.take() == b"\0" + other, name
        assert buffer.take_run(end) == (b"", 200)
        assert buffer.take() == b"\xff..."


def test_a_run_has_no_bytes_of_semi_synchronous_replication():
    """An event that asks for a reply begins the numbers anew."""
    events = [event(30, 40, 140), event(16, 31, 171), event(30, 300, 471)]
    marked = [b"\0\xef\0", b"\0\xef\1", b"\0\xef\0"]
    data = b"".join(packet(n, mark + each) for n, mark, each in zip((1, 2, 1), marked, events, strict=True))
    buffer = PacketBuffer(semi_sync=True)
    buffer.make_room()
    memoryview(buffer)[: len(data)] = data
    buffer.received(len(data))
    assert buffer.take_run(100) == (b"".join(packet(0, b"\0" + each) for each in events), 471)
    assert buffer.reply_awaited
    assert buffer.take() is None


def test_packets_without_numbers():
    buffer = PacketBuffer(numbered=False)
    data = (
        packet(0, b"\0" + event(30, 40, 140)) * 2
        + packet(0, b"\x01notice")
        + packet(0, b"\0x")
        + packet(1, b"")
    )
    buffer.make_room()
    memoryview(buffer)[: len(data)] = data
    buffer.received(len(data))
    assert buffer.take() == b"\0" + event(30, 40, 140)
    assert buffer.take_run(100)[1] == 140
    assert buffer.take() == b"\x01notice"
    assert buffer.take() == b"\0x"
    with pytest.raises(ValueError, match="1 came where 0"):
        buffer.take()


def test_the_events_of_a_run_have_no_heads():
    events = [bytes([kind]) * (19 + kind) for kind in range(3)]
    run = b"".join((len(event) + 1).to_bytes(3, "little") + b"\0\0" + event for event in events)
    assert events_of(run) == b"".join(events)
    for cut in (run[:-1], run[:3], b"\0\0\0\0", b"\xff\xff\xff\0"):
        with pytest.raises(ValueError, match="whole packets"):
            events_of(cut)
