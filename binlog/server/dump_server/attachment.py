"""Attachment: a reader's connection to a dump server, which sends what the source sends after a position."""

from __future__ import annotations

import contextlib
import json
import socket
import time

from canal_group.binlog.server.dump_server.wire import ANSWER, own_user, packets_of
from canal_group.binlog.server.packets import PacketReader
from canal_group.merge.errors import SourceUnavailable
from canal_group.merge.values.position import Position


class NotAttached(Exception):  # noqa: N818  it is not an error: the reader reads the source by itself
    """The dump server does not serve a position, or there is none.

    Args:
        why: the end of a sentence.
        answered: whether the dump server said so.
    """

    def __init__(self, why: str, *, answered: bool = False) -> None:
        super().__init__(why)
        self.answered = answered


class Attachment:
    """A connection to a dump server after which it sends what follows a position, like a source.

    Args:
        sock: connected to the dump server; it is owned by the attachment.
        position: where the reader is.
        wait_s: how long to wait for the answer.
        timeout_s: how long the dump server may be silent later.

    Raises:
        NotAttached: why the dump server does not serve the position, as the end of a sentence.
    """

    def __init__(self, sock: socket.socket, position: Position, wait_s: float, timeout_s: float) -> None:
        self._sock = sock
        self.position = position
        try:
            self._request(wait_s)
            #: what it sends after the answer
            self.packets = PacketReader(sock, timeout_s, numbered=False)
            self._await_answer(time.monotonic() + wait_s)
        except (OSError, SourceUnavailable, ValueError) as error:
            self.close()
            raise NotAttached(f"it did not answer: {error}") from error
        except BaseException:
            self.close()
            raise

    def _request(self, wait_s: float) -> None:
        if not own_user(self._sock):
            raise NotAttached("another user's process has the name of its socket")
        position = self.position
        request = {"file": position.file, "offset": position.offset, "created_s": position.created_s}
        self._sock.settimeout(wait_s)
        self._sock.sendall(packets_of(json.dumps(request).encode()))

    def _await_answer(self, until_s: float) -> None:
        while (payload := self.packets.take()) is None:
            if not self.packets.readable(max(0.0, until_s - time.monotonic())):
                raise NotAttached("it did not answer in time")
            self.packets.fill()
        if payload[:1] != bytes([ANSWER]):
            raise NotAttached("what answers is not a dump server")
        answered = json.loads(payload[1:])
        if not answered.get("attached"):
            raise NotAttached(str(answered.get("why")), answered=True)

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(OSError):
            self._sock.close()
