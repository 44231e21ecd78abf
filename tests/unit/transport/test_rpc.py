"""RPC between processes of an instance: calls, authentication, and errors when a connection breaks."""

from __future__ import annotations

import asyncio
import hmac
import os
from concurrent.futures import Future
from dataclasses import replace

import pytest

from canal_group.actors.admission.held_connections import HeldConnections
from canal_group.actors.transport import rpc_wire
from canal_group.actors.transport.bind_address import certificate_where_reached
from canal_group.actors.transport.rpc_client import KeptRpcClient, RpcClient
from canal_group.actors.transport.rpc_connection import RpcConnection
from canal_group.actors.transport.rpc_server import CONNECTIONS_MAX, UNAUTHENTICATED_MAX, RpcServer
from canal_group.actors.transport.rpc_wire import RpcAddress
from canal_group.merge.errors import RolledBack, ServerUnavailable
from canal_group.shared_memory import handshake

DEADLINE_S = 20.0


class UnreadableError(Exception):
    """Can be pickled, but not unpickled."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")


class Desk:
    """The methods that are called."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.go_on = asyncio.Event()

    async def echo(self, *values: object, **keywords: object) -> object:
        self.began.append("echo")
        return values, keywords

    async def wait(self) -> str:
        self.began.append("wait")
        await self.go_on.wait()
        return "gone on"

    async def refuse(self) -> None:
        raise RolledBack("Batch 7 was rolled back.", hint="Get again.", batch_id=7)

    async def mistake(self) -> None:
        raise UnreadableError("one", "two")

    async def long(self) -> bytes:
        return b"x" * 2_000

    async def unspeakable(self) -> object:
        return lambda: None

    def rpc_server(self, **options) -> RpcServer:
        names = ("echo", "wait", "refuse", "mistake", "long", "unspeakable")
        return RpcServer({name: getattr(self, name) for name in names}, **options)


async def until(condition, what):
    """Return when `condition` holds; `what` describes it to readers of the test."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110  it looks at what other tasks leave behind
            await asyncio.sleep(0.005)


def run(story):
    async def live():
        desk = Desk()
        rpc_server = desk.rpc_server()
        address = await rpc_server.open()
        try:
            async with asyncio.timeout(DEADLINE_S):
                await story(desk, rpc_server, address)
        finally:
            rpc_server.close()

    asyncio.run(live())


def test_calls_are_answered_by_number_and_not_by_order():
    async def story(desk, rpc_server, address):
        client = await RpcClient.open(address, "The desk")
        waits, echoes = client.ask("wait"), client.ask("echo", 1, b"x" * 3_000_000, two=2)
        assert await echoes == ((1, b"x" * 3_000_000), {"two": 2})
        assert not waits.done()
        assert desk.began == ["wait", "echo"]
        desk.go_on.set()
        assert await waits == "gone on"
        assert client._waiting == {}
        client.close()

    run(story)


def test_messages_are_taken_from_any_split_of_their_bytes():
    async def story(desk, rpc_server, address):
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: RpcConnection(1_000), address.host, address.port
        )
        connection.data_received(b"x" * 2_000)
        assert not connection.transport.is_reading(), "little is held before the handshake"
        assert await connection.exactly(2_000) == b"x" * 2_000
        messages = [1, rpc_wire.pack("a frame within a frame"), "two"]
        stream = b"".join(map(rpc_wire.pack, messages))
        taken = []
        connection.listen(taken.append)
        assert connection.transport.is_reading()
        for size in range(1, len(stream) + 1):
            taken.clear()
            for begin in range(0, len(stream), size):
                connection.data_received(stream[begin : begin + size])
            assert taken == messages
        within = stream.index(messages[1])
        for part in (stream[:within], messages[1], stream[within + len(messages[1]) :]):
            connection.data_received(part)
        assert taken == messages * 2
        connection.close()

    run(story)


def test_a_handshake_ends_with_its_connection():
    async def story(desk, rpc_server, address):
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: RpcConnection(1_000), address.host, address.port
        )
        connection.transport.abort()
        with pytest.raises(ConnectionResetError):
            await connection.exactly(1)

    run(story)


def test_an_error_arrives_as_raised_or_in_words_and_the_channel_stays():
    async def story(desk, rpc_server, address):
        client = await RpcClient.open(address, "The desk")
        with pytest.raises(RolledBack, match="Batch 7") as caught:
            await client.ask("refuse")
        assert (caught.value.hint, caught.value.details) == ("Get again.", {"batch_id": 7})
        with pytest.raises(RuntimeError, match="UnreadableError: one two"):
            await client.ask("mistake")
        with pytest.raises(Exception, match="pickle"):
            await client.ask("unspeakable")
        with pytest.raises(KeyError, match="dance"):
            await client.ask("dance")
        assert await client.ask("echo") == ((), {})
        client.close()

    run(story)


def test_a_broken_channel_is_reported_to_waiting_and_later_callers():
    async def story(desk, rpc_server, address):
        client = await RpcClient.open(address, "The desk")
        waits = client.ask("wait")
        await until(lambda: desk.began == ["wait"], "the call was heard")
        assert rpc_server.connections == 1
        rpc_server.close()
        with pytest.raises(ServerUnavailable, match="The desk is unavailable"):
            await waits
        await asyncio.wait([client.ended])
        with pytest.raises(ServerUnavailable, match="The desk is unavailable"):
            await client.ask("echo")
        await until(lambda: rpc_server.connections == 0, "the connection is closed")

    run(story)


def test_a_call_hears_of_a_closed_channel_though_its_server_reads_no_more():
    async def story(desk, rpc_server, address):
        client = await RpcClient.open(address, "The desk")
        await until(lambda: rpc_server.connections == 1, "the server listens")
        for connection in rpc_server._connections:
            connection.transport.pause_reading()
        answer = client.ask("echo", b"x" * 30_000_000)
        client.close()
        with pytest.raises(ServerUnavailable, match="The desk is unavailable"):
            await answer

    run(story)


def test_a_caller_without_the_secret_is_refused():
    async def story(desk, rpc_server, address):
        with pytest.raises(ServerUnavailable):
            await RpcClient.open(replace(address, secret=handshake.new_secret()), "The desk")
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(
            os.urandom(handshake.NONCE_BYTES)
            + os.urandom(handshake.RESPONSE_BYTES)
            + rpc_wire.pack((0, "echo", (), {}))
        )
        assert len(await reader.read()) == handshake.GREETING_BYTES, "the server's greeting, and no answer"
        writer.close()
        assert (desk.began, rpc_server.connections) == ([], 0)

    run(story)


def test_an_impostor_of_the_server_learns_nothing_and_is_refused():
    """An impostor sends the client's nonce back, with a response that it makes without the secret."""

    async def story(desk, rpc_server, address):
        heard = []

        async def mirror(reader, writer):
            nonce = await reader.readexactly(handshake.NONCE_BYTES)
            heard.append(nonce)
            writer.write(nonce + hmac.digest(b"", b"server" + nonce + nonce, "sha256"))
            heard.append(await reader.read())
            writer.close()

        server = await asyncio.start_server(mirror, rpc_wire.LOOPBACK, 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ServerUnavailable):
            await RpcClient.open(replace(address, port=port), "The desk")
        await until(lambda: len(heard) == 2, "the connection was closed")
        assert heard[1] == b"", "the client sent it nothing else"
        server.close()

    run(story)


@pytest.mark.parametrize("tls", [False, True])
def test_a_silent_connection_blocks_no_other(tls):
    """With TLS, silent clients do not even begin the TLS handshake."""

    async def story(desk, rpc_server, address):
        host = "127.0.0.2" if tls else "127.0.0.1"
        other = desk.rpc_server()
        address = await other.open(host, certificate_where_reached(host, tls=tls))
        streams = [await asyncio.open_connection(host, address.port) for _ in range(3 * CONNECTIONS_MAX)]
        client = await RpcClient.open(address, "The desk")
        assert await client.ask("echo") == ((), {})
        for reader, _ in streams[:-UNAUTHENTICATED_MAX]:
            assert await reader.read() == b"", (
                "the oldest unauthenticated connections are closed for later ones"
            )
        assert len(other._unauthenticated) <= UNAUTHENTICATED_MAX
        assert await client.ask("echo", 1) == ((1,), {}), "an authenticated connection stays open"
        for _, writer in streams:
            writer.close()
        client.close()
        other.close()

    run(story)


@pytest.mark.parametrize("tls", [False, True])
def test_a_connection_without_a_handshake_in_time_is_closed(tls):
    async def story(desk, rpc_server, address):
        host = "127.0.0.2" if tls else "127.0.0.1"
        other = desk.rpc_server(greeting_timeout_s=0.05)
        address = await other.open(host, certificate_where_reached(host, tls=tls))
        reader, writer = await asyncio.open_connection(host, address.port)
        assert await reader.read() == b""
        writer.close()
        other.close()

    run(story)


def test_the_oldest_connection_of_the_busiest_caller_is_closed():
    held = HeldConnections[int](4)
    assert [held.add(number, peer) for number, peer in enumerate("abbc")] == [None] * 4
    assert held.add(4, "d") == 1
    assert held.add(5, "b") == 2
    held.remove(5)
    held.remove(5)
    assert held.add(6, "a") is None
    assert held.add(7, "e") == 0
    assert len(held) == 4
    assert held.clear() == [3, 4, 6, 7]
    assert len(held) == 0


def test_a_line_beyond_the_bound_is_closed_at_once():
    async def story(desk, rpc_server, address):
        connections = [await RpcClient.open(address, "The desk") for _ in range(CONNECTIONS_MAX)]
        await until(lambda: rpc_server.connections == CONNECTIONS_MAX, "all are authenticated")
        with pytest.raises(ServerUnavailable):
            await RpcClient.open(address, "The desk")
        connections[0].close()
        await until(lambda: rpc_server.connections < CONNECTIONS_MAX, "one has left")
        (await RpcClient.open(address, "The desk")).close()
        for each in connections:
            each.close()

    run(story)


def test_too_long_a_frame_ends_its_channel_and_too_long_an_answer_fails():
    async def story(desk, rpc_server, address):
        small = desk.rpc_server(frame_bytes_max=1_000)
        address = await small.open()
        client = await RpcClient.open(address, "The desk", frame_bytes_max=1_000)
        with pytest.raises(ValueError, match="longer than 1000"):
            client.ask("echo", b"x" * 2_000)
        for frame in (rpc_wire.LENGTH.pack(2_000), rpc_wire.pack((0, "echo", (b"x" * 2_000,), {}))):
            client = await RpcClient.open(address, "The desk", frame_bytes_max=1_000)
            client._connection.send(frame)
            with pytest.raises(ServerUnavailable):
                await client.ask("wait")
        assert "echo" not in desk.began
        large = await RpcClient.open(address, "The desk")
        with pytest.raises(ValueError, match="longer than 1000"):
            await large.ask("long")
        large.close()
        small.close()

    run(story)


def test_a_channel_between_machines_is_encrypted_and_verified():
    async def story(desk, rpc_server, address):
        guarded, other = desk.rpc_server(), certificate_where_reached("127.0.0.2", tls=True)
        where = await guarded.open("127.0.0.2", certificate_where_reached("127.0.0.2", tls=True))
        client = await RpcClient.open(where, "The desk")
        assert await client.ask("echo", 1) == ((1,), {})
        assert client._connection.transport.get_extra_info("cipher") is not None
        client.close()
        for wrong in (replace(where, certificate=other.certificate), replace(where, certificate=None)):
            with pytest.raises(ServerUnavailable):
                await RpcClient.open(wrong, "The desk")
        guarded.close()

    run(story)


def test_a_kept_line_is_opened_again_and_repeats_no_call():
    async def story(desk, rpc_server, address):
        calls = []

        async def find() -> RpcAddress:
            calls.append(1)
            if len(calls) in {2, 3}:
                raise ServerUnavailable("Not yet.") if len(calls) == 2 else RuntimeError("whatever")
            return address

        kept = KeptRpcClient("The desk", find, wait_s=DEADLINE_S, defect_pause_s=0.0)
        keeping = asyncio.create_task(kept.keep())
        assert await kept.ask("echo", 1) == ((1,), {})
        waits = asyncio.create_task(kept.ask("wait"))
        await until(lambda: "wait" in desk.began, "the call was heard")
        for connection in list(rpc_server._connections):
            connection.close()
        with pytest.raises(ServerUnavailable):
            await waits
        assert await kept.ask("echo", 2) == ((2,), {})
        echoed, unspeakable = Future(), Future()
        kept.ask_for(echoed, "echo", 3)
        kept.ask_for(unspeakable, "echo", lambda: None)
        assert await asyncio.wrap_future(echoed) == ((3,), {})
        with pytest.raises(Exception, match="pickle"):
            await asyncio.wrap_future(unspeakable)
        assert (desk.began.count("wait"), len(calls)) == (1, 4)
        keeping.cancel()

    run(story)


def test_a_call_waits_a_moment_for_a_line_and_no_longer():
    async def story(desk, rpc_server, address):
        client, answer = KeptRpcClient("The desk", None, wait_s=0.05), Future()
        client.ask_for(answer, "echo")
        with pytest.raises(ServerUnavailable, match="The desk is unavailable"):
            await client.ask("echo")
        with pytest.raises(ServerUnavailable, match="The desk is unavailable"):
            await asyncio.wrap_future(answer)
        assert not client._later

    run(story)
