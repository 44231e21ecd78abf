"""Answers of a hostile server to statements and to the login: bounded, and refused in a sentence."""

from __future__ import annotations

import ast
import contextlib
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.defaults import address_of
from support.security.rogue_server import OK, Wire, rogue
from support.soak import cases

from canal_group.binlog.server.answers import ANSWER, LOGIN, AnswerBounds
from canal_group.binlog.server.clock import clock_of
from canal_group.binlog.server.preflight.preflight import preflight
from canal_group.binlog.server.source import connect, query
from canal_group.merge.errors import CanalGroupError, SourceUnavailable, SourceUnfit

ROOT = Path(__file__).parents[4]
_FULL = 0xFFFFFF
_EOF = b"\xfe\0\0\2\0"
#: the end of a part, and the word that another result follows
_MORE = b"\0\0\0\x0a\0\0\0"
SMALL = AnswerBounds(bytes_max=4 << 20, rows_max=1_000, columns_max=16, seconds_max=0.5)


def address(server, **changes):
    fields = {"name": "s1", "host": "127.0.0.1", "port": server.port, "user": "canal", "password": "x"}
    return address_of(**{**fields, "server_id": 9, "read_timeout_s": 5.0, **changes})


def column(name=b"a", kind=253, charset=45):
    texts = b"".join(bytes([len(each)]) + each for each in (b"def", b"", b"", b"", name, name))
    return texts + b"\x0c" + charset.to_bytes(2, "little") + bytes(4) + bytes([kind]) + bytes(5)


def answering(answer):
    """Return a trick: let everybody in, set the session up, and answer each statement after that."""

    def trick(wire: Wire) -> None:
        wire.send(OK)
        while True:
            command = wire.receive()
            if b"AUTOCOMMIT" in command or b"SET NAMES" in command:
                wire.send(OK)
            else:
                answer(wire)

    return trick


def asked(server, bounds=SMALL):
    with contextlib.closing(connect(address(server))) as connection:
        return query(address(server), connection, "SHOW BINARY LOGS", bounds)


def one_packet_without_end(wire):
    while True:
        wire.socket.sendall(b"\xff\xff\xff" + bytes([wire.sequence]) + bytes(_FULL))
        wire.sequence = (wire.sequence + 1) % 256


def columns_without_end(wire):
    wire.send(b"\xfe" + (10**9).to_bytes(8, "little"))
    while True:
        wire.send(column())


def rows_without_end(wire):
    for packet in (b"\1", column(), _EOF):
        wire.send(packet)
    while True:
        wire.send(b"\1a")


def results_without_end(wire):
    while True:
        wire.send(_MORE)


def a_byte_at_a_time(wire):
    for packet in (b"\1", column(), _EOF):
        wire.send(packet)
    while True:
        for byte in bytes([2, 0, 0, wire.sequence]) + b"\1a":
            wire.socket.sendall(bytes([byte]))
            threading.Event().wait(0.02)
        wire.sequence = (wire.sequence + 1) % 256


ENDLESS = {
    one_packet_without_end: "bytes",
    columns_without_end: "16 columns",
    rows_without_end: "1000 rows",
    a_byte_at_a_time: "0.5 seconds",
}


@pytest.mark.parametrize("answer", ENDLESS)
def test_an_answer_without_end_is_refused_by_its_bound(answer):
    with rogue(answering(answer)) as server, pytest.raises(SourceUnfit) as refused:
        asked(server)
    text = str(refused.value)
    assert f"canal@127.0.0.1:{server.port} answers 'SHOW BINARY LOGS' with more than" in text
    assert ENDLESS[answer] in text
    assert "check host and port" in text


def test_results_without_end_are_refused():
    """The driver reads what it did not ask for when a cursor closes."""
    with (
        rogue(answering(results_without_end)) as server,
        pytest.raises(SourceUnfit, match="more than 1000 rows"),
    ):
        asked(server)


@pytest.mark.parametrize(
    "ask", [preflight, lambda where: clock_of(where, connect(where))], ids=["check", "clock"]
)
def test_each_command_has_bounds(ask):
    refused = pytest.raises(SourceUnfit, match=f"with more than {ANSWER.bytes_max} bytes")
    with rogue(answering(one_packet_without_end)) as server, refused:
        ask(address(server))


def test_a_login_has_bounds():
    refused = pytest.raises(SourceUnfit, match=f"answers the login with more than {LOGIN.bytes_max} bytes")
    with rogue(greet=one_packet_without_end) as server, refused:
        connect(address(server))

    def switches(wire):
        while True:
            wire.send(b"\x01\x03")

    with rogue(switches, plugin="caching_sha2_password") as server, pytest.raises(CanalGroupError):
        connect(address(server))


def test_a_connection_is_closed_after_an_answer_without_end():
    with rogue(answering(rows_without_end)) as server:
        where = address(server)
        connection = connect(where)
        with pytest.raises(SourceUnfit):
            query(where, connection, "SHOW x", SMALL)
        with pytest.raises(SourceUnavailable):
            query(where, connection, "SHOW x", SMALL)


#: name -> packets, each an answer that makes the driver index, unpack, decode or assert
NONSENSE = {
    "no number of columns": [b"\xfb"[:0] + b"\xfd"],
    "null columns": [b"\2", column()],
    "no end of columns": [b"\1", column(), b"\1a"],
    "half a column": [b"\1", column()[:9], _EOF, _EOF],
    "text that is not utf-8": [b"\1", column(), _EOF, b"\2\xff\xfe", _EOF],
    "a number that is not ascii": [b"\1", column(kind=3), _EOF, b"\2\xff\xfe", _EOF],
    "a number that is none": [b"\1", column(kind=3), _EOF, b"\2xy", _EOF],
    "a decimal that is none": [b"\1", column(kind=246), _EOF, b"\2xy", _EOF],
    "a value that is longer than its row": [b"\1", column(), _EOF, b"\xfd\xff\xff\xff", _EOF],
    "an error without its number": [b"\xff"],
    "an empty packet": [b""],
}


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_is_the_sources_and_names_it(name):
    def answer(wire):
        for packet in NONSENSE[name]:
            wire.send(packet)
        wire.socket.close()

    with rogue(answering(answer)) as server, pytest.raises((SourceUnfit, SourceUnavailable)) as refused:
        asked(server)
    assert f"canal@127.0.0.1:{server.port}" in str(refused.value)


@settings(max_examples=cases(60), deadline=None)
@given(st.lists(st.binary(max_size=40) | st.sampled_from([b"\1", column(), _EOF, b"\1a", OK]), max_size=8))
def test_any_packets_are_rows_or_an_error_of_ours(packets):
    def answer(wire):
        for packet in packets:
            wire.send(packet)
        wire.socket.close()

    with rogue(answering(answer)) as server, contextlib.suppress(CanalGroupError):
        assert isinstance(asked(server), list)


OPENING = {"pymysql.connect", "pymysql.Connection", "GuardedConnection", "BoundedConnection"}


def test_only_one_function_opens_a_cursor_or_a_connection():
    found = {"cursor": set(), "opened": set()}
    for room in ("binlog", "actors", "programs", "merge", "conf", "canal_group"):
        for path in (ROOT / room).rglob("*.py"):
            if path.resolve() != path:
                continue  # a link to another room
            for node in ast.walk(ast.parse(path.read_text())):
                if not isinstance(node, ast.Call):
                    continue
                called = ast.unparse(node.func)
                if called.endswith(("onnection.cursor", "driver.cursor")):
                    found["cursor"].add(path.name)
                if called in OPENING:
                    found["opened"].add(path.name)
    assert found == {"cursor": {"source.py"}, "opened": {"source.py"}}
