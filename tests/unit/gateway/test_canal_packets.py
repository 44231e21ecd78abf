"""Packets and logins of canal's protocol, without a server."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from canal_group.actors.gateway.canal import packets
from canal_group.actors.gateway.canal.login import CanalLogin, ShownLogin, new_seed, scrambled
from canal_group.canal_protocol import entry_pb2, packet_pb2
from canal_group.merge.errors import UsageError

PROTOCOL = Path(packet_pb2.__file__).parent


def framed(data: bytes) -> packet_pb2.Packet:
    (length,) = struct.unpack(">i", data[:4])
    assert length == len(data) - 4
    return packet_pb2.Packet.FromString(data[4:])


@pytest.mark.parametrize("module", [packet_pb2, entry_pb2])
def test_the_generated_code_is_that_of_its_file(module):
    """Names and numbers are compared; scripts/generate-protocol.sh writes the code anew."""
    text = (PROTOCOL / f"{module.__name__.rpartition('.')[2].removesuffix('_pb2')}.proto").read_text()
    words = text.split()
    declared = {
        (words[at - 1], words[at + 1].rstrip(";"))
        for at, word in enumerate(words)
        if word == "=" and words[at - 1] != "syntax"
    }
    file = module.DESCRIPTOR
    fields = {
        (field.name, str(field.number))
        for message in file.message_types_by_name.values()
        for field in message.fields
    }
    values = {
        (value.name, str(value.number)) for enum in file.enum_types_by_name.values() for value in enum.values
    }
    assert fields | values == declared


def test_packets_say_what_clients_look_for():
    seed = new_seed()
    packet = framed(packets.handshake(seed))
    assert (packet.magic_number, packet.version, packet.type) == (17, 1, packet_pb2.HANDSHAKE)
    assert packet.compression == packet_pb2.NONE
    assert packet_pb2.Handshake.FromString(packet.body).seeds == seed
    ack = packet_pb2.Ack.FromString(framed(packets.ack()).body)
    assert (ack.HasField("error_code"), ack.error_code) == (True, 0)
    messages = packet_pb2.Messages.FromString(framed(packets.no_messages()).body)
    assert (messages.batch_id, list(messages.messages)) == (-1, [])


@pytest.mark.parametrize("size", [0, 1, 127, 128, 1 << 14, 1 << 21])
def test_the_head_of_a_batch_fits_its_entries(size):
    entries = packet_pb2.Messages(messages=[b"x" * size]).SerializeToString()
    packet = framed(packets.messages_head(7 << 32, len(entries)) + entries)
    messages = packet_pb2.Messages.FromString(packet.body)
    assert (packet.type, messages.batch_id, list(messages.messages)) == (7, 7 << 32, [b"x" * size])


def test_a_packet_of_two_gibibytes_is_refused():
    with pytest.raises(UsageError, match=r"batch\.bytes_max"):
        packets.messages_head(1, 1 << 31)


@pytest.mark.parametrize(
    ("timeout", "unit", "seconds"),
    [
        (None, None, 0.0),
        (-1, 2, 0.0),
        (0, 2, None),
        (5, 2, 0.005),
        (5, None, 0.005),
        (5, -1, 0.005),
        (3, 0, 3e-9),
        (3, 1, 3e-6),
        (3, 3, 3.0),
        (3, 4, 180.0),
        (3, 5, 10_800.0),
        (1, 6, 86_400.0),
    ],
)
def test_a_timeout_has_a_unit(timeout, unit, seconds):
    get = packet_pb2.Get()
    if timeout is not None:
        get.timeout = timeout
    if unit is not None:
        get.unit = unit
    assert packets.timeout_s(get) == (seconds if seconds is None else pytest.approx(seconds))


def test_any_bytes_are_a_request_or_refused():
    chance = random.Random(7)
    good = packet_pb2.Packet(type=packet_pb2.GET, body=packet_pb2.Get(fetch_size=7).SerializeToString())
    data = good.SerializeToString()
    assert packets.read_request(data) == packet_pb2.Get(fetch_size=7)
    refused = 0
    for _ in range(5_000):
        bad = bytearray(data if chance.random() < 0.7 else chance.randbytes(chance.randint(0, 60)))
        for _ in range(chance.randint(0, 3)):
            if bad:
                bad[chance.randrange(len(bad))] = chance.randrange(256)
        try:
            packets.read_request(bytes(bad))
        except UsageError:
            refused += 1
    assert refused > 1_000
    with pytest.raises(UsageError, match="HEARTBEAT is not a request"):
        packets.read_request(packet_pb2.Packet(type=packet_pb2.HEARTBEAT).SerializeToString())
    good.compression = packet_pb2.GZIP
    with pytest.raises(UsageError, match="Compressed"):
        packets.read_request(good.SerializeToString())


#: the digest in canal's own properties file, and the password that its documentation gives for it
DIGEST, PASSWORD = "*E3619321C1A937C46A0D8BD1DAC39F93B27D4458", "canal"


@pytest.mark.parametrize("secret", [DIGEST, PASSWORD])
def test_a_login_is_checked_by_password_or_digest(secret):
    login, seed = CanalLogin.of("canal", secret), new_seed()
    shown = packet_pb2.ClientAuth(username="canal", password=scrambled(b"canal", seed).hex().encode())
    assert login.admits(ShownLogin.of(shown, seed))
    assert "digest" not in repr(login)
    other = ShownLogin.of(shown, new_seed())
    assert not login.admits(other)
    assert "wrong" in str(other.refusal)
    for wrong in (b"canal", b"", b"zz" * 20, b"00" * 19, "ü".encode()):
        shown.password = wrong
        plain = ShownLogin.of(shown, seed)
        assert not login.admits(plain)
        assert "not scrambled" in str(plain.refusal)
    assert not login.admits(
        ShownLogin.of(
            packet_pb2.ClientAuth(username="root", password=scrambled(b"canal", seed).hex().encode()), seed
        )
    )
