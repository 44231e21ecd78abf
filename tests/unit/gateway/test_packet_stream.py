"""The packets of one connection: what counts as sent, and waiting."""

from __future__ import annotations

import asyncio
import socket

import pytest

from canal_group.actors.gateway.canal.stream import PART_BYTES, PacketStream, PeerGone

#: bytes that the server's socket buffers
BUFFER_BYTES = 8 << 10


async def connected() -> tuple[PacketStream, asyncio.StreamWriter, socket.socket]:
    """Return a stream whose peer does not read, its writer, and the peer."""
    accepted: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Future()
    server = await asyncio.start_server(lambda *both: accepted.set_result(both), "127.0.0.1", 0)
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    peer.connect(server.sockets[0].getsockname())
    reader, writer = await accepted
    server.close()
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
    return PacketStream(reader, writer, send_s=30.0), writer, peer


def test_what_a_closed_connection_did_not_take_is_not_sent():
    async def story() -> None:
        stream, writer, peer = await connected()
        sending = asyncio.create_task(stream.send(bytes(PART_BYTES)))
        await asyncio.sleep(0)
        assert writer.transport.get_write_buffer_size(), "the socket does not take all of it"
        stream.abort()
        with pytest.raises(PeerGone):
            await sending
        peer.close()

    asyncio.run(story())


def test_a_pause_ends_with_its_time_or_with_the_connection():
    async def story() -> None:
        stream, _, peer = await connected()
        await stream.pause(0.0)
        await stream.pause(0.01)
        pausing = asyncio.create_task(stream.pause(30.0))
        await asyncio.sleep(0)
        stream.abort()
        with pytest.raises(PeerGone):
            async with asyncio.timeout(10.0):
                await pausing
        peer.close()

    asyncio.run(story())
