"""Where a stream begins, and the bytes by which it is asked for."""

from __future__ import annotations

import pytest
from support.defaults import address_of

from canal_group.binlog.formats.gtid_sets import decode_gtid_set, encode_gtid_set
from canal_group.binlog.server.dump.dump_request import dump_after, dump_from
from canal_group.binlog.server.source import ServerFacts
from canal_group.binlog.server.starts.start import goes_by_gtid
from canal_group.merge.errors import SourceUnfit
from canal_group.merge.values.gtids.gtid import NO_GTIDS, parse_gtid_set
from canal_group.merge.values.position import Position

UUID = "00010203-0405-0607-0809-0a0b0c0d0e0f"
UUID_BYTES = bytes(range(16))
ADDRESS = address_of("s1", "db0", server_id=7)
MYSQL = ServerFacts("9.7.4", 1, "here", {"gtid_mode": "ON"})
MARIADB = ServerFacts("10.11.6-MariaDB", 1, "here", {})


def number(*values):
    return b"".join(value.to_bytes(8, "little") for value in values)


def test_a_set_without_tags_is_written_as_every_version_reads_it():
    assert encode_gtid_set(NO_GTIDS) == number(0)
    assert encode_gtid_set(parse_gtid_set(f"{UUID}:1-3:8")) == number(1) + UUID_BYTES + number(2, 1, 4, 8, 9)


def test_a_set_with_tags_has_the_newer_form():
    """Untagged, then tagged, each with its uuid; the count lies between two ones."""
    encoded = encode_gtid_set(parse_gtid_set(f"{UUID}:5:ab:1-2"))
    assert encoded == (
        b"\x01\x02\0\0\0\0\0\x01"
        + UUID_BYTES + b"\0" + number(1, 5, 6)
        + UUID_BYTES + b"\x04ab" + number(1, 1, 3)
    )  # fmt: skip


@pytest.mark.parametrize("text", ["", f"{UUID}:1-3:8", f"{UUID}:5:ab:1-2:7,{UUID[:-1]}e:tag:9"])
def test_a_set_is_read_as_it_was_written(text):
    gtids = parse_gtid_set(text)
    assert decode_gtid_set(encode_gtid_set(gtids)) == gtids


def test_requests():
    by_file = dump_from("bin.000007", 4711, server_id=7)
    assert (by_file.command, by_file.session) == (0x12, ())
    assert by_file.payload == (4711).to_bytes(4, "little") + b"\0\0" + b"\x07\0\0\0" + b"bin.000007"
    by_gtid = dump_after(parse_gtid_set(f"{UUID}:1"), server_id=7)
    assert by_gtid.command == 0x1E
    assert by_gtid.payload.startswith(b"\x04\0" + b"\x07\0\0\0" + bytes(4) + number(4))
    of_mariadb = dump_after(parse_gtid_set("0-1-5,1-2-7"), server_id=7)
    assert of_mariadb.command == 0x12
    assert "@slave_connect_state = '0-1-5,1-2-7'" in of_mariadb.session


@pytest.mark.parametrize(
    ("facts", "gtids", "server", "start_by", "by_gtid"),
    [
        (MYSQL, f"{UUID}:1", "here", "auto", False),
        (MYSQL, f"{UUID}:1", "", "auto", False),
        (MYSQL, f"{UUID}:1", "there", "auto", True),
        (MARIADB, "0-1-5", "there", "auto", True),
        (MYSQL, f"{UUID}:1", "here", "gtid", True),
        (MYSQL, "", "here", "gtid", False),
        (MYSQL, f"{UUID}:1", "here", "file", False),
    ],
)
def test_by_offset_on_its_own_server_by_gtid_on_another(facts, gtids, server, start_by, by_gtid):
    position = Position("bin.000001", 4, gtid_set=parse_gtid_set(gtids), server=server)
    assert goes_by_gtid(ADDRESS, facts, position, start_by) is by_gtid


@pytest.mark.parametrize(
    ("facts", "gtids", "start_by", "why"),
    [
        (MYSQL, f"{UUID}:1", "file", "there, and start_by is file"),
        (MYSQL, "", "auto", "the position bin.000001:4 has no GTIDs"),
        (MYSQL, "", "gtid", "the position bin.000001:4 has no GTIDs"),
        (ServerFacts("8.0.36", 1, "here", {"gtid_mode": "OFF"}), f"{UUID}:1", "auto", "it writes no GTIDs"),
        (ServerFacts("8.0.36", 1, "here", {"gtid_mode": "OFF"}), f"{UUID}:1", "gtid", "start_by is gtid"),
        (MARIADB, f"{UUID}:1", "auto", f"its GTIDs are not of the kind of {UUID}:1"),
        (MYSQL, "0-1-5", "auto", "its GTIDs are not of the kind of 0-1-5"),
        (
            ServerFacts("8.2.0", 1, "here", {"gtid_mode": "ON"}),
            f"{UUID}:t:1",
            "auto",
            "MySQL 8.2.0, does not",
        ),
    ],
)
def test_another_server_is_refused_with_the_reason(facts, gtids, start_by, why):
    position = Position("bin.000001", 4, gtid_set=parse_gtid_set(gtids), server="there")
    with pytest.raises(SourceUnfit) as caught:
        goes_by_gtid(ADDRESS, facts, position, start_by)
    assert why in str(caught.value)
    assert caught.value.hint
