"""Archive keeper: keeps the dump server of a source alive while an instance reads that.

A reader may wait for room for days, and its shard may be restarted: the archive is written meanwhile. So
each shard has a connection that only says that the archive is needed, and from which position on. If the
process at its other end is gone, the keeper starts another one.
"""

from __future__ import annotations

import contextlib
import json
import logging
import random
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from canal_group.binlog.server.dump_server.attachment import NotAttached
from canal_group.binlog.server.dump_server.wire import (
    ANSWER,
    DURABLE,
    ArchiveEnd,
    end_from,
    keeps,
    own_user,
    packets_of,
)
from canal_group.binlog.server.packets import PacketReader
from canal_group.merge.back_off import BackOff
from canal_group.merge.errors import SourceUnavailable
from canal_group.merge.values.retention.kept_position import KeptPosition

_log = logging.getLogger(__name__)

#: pauses after a loss, seconds
_FIRST_PAUSE_S: Final = 0.5
_PAUSE_MAX_S: Final = 30.0
#: a dump server that reports nothing for so long has stopped, seconds; it may be recovering a large file
_SILENCE_MAX_S: Final = 120.0


class ArchiveKeeper:
    """Holds the connection, in a thread of its own.

    Args:
        name: whose archive it is, for messages of the dump server: destination and shard.
        server: identity of the source.
        connect: returns a connection to the dump server, which it starts if there is none, or raises
            NotAttached.
        kept: returns the positions from which clients read on; none: nothing is needed.
        reached: takes the durable end of the archive as it grows, in the keeper's thread.
    """

    def __init__(
        self,
        name: str,
        server: str,
        connect: Callable[[], socket.socket],
        kept: Callable[[], Sequence[KeptPosition]],
        reached: Callable[[ArchiveEnd], None],
    ) -> None:
        self._name, self.server, self._connect, self._kept = name, server, connect, kept
        self._reached = reached
        #: the last report of the dump server; None: the keeper has no connection
        self.state: Mapping[str, Any] | None = None
        self._closed = threading.Event()
        self._lock = threading.Lock()  # guards _sock against a close in between
        self._sock: socket.socket | None = None
        self._thread = threading.Thread(target=self._run, name="archive-keeper", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Need the archive no more."""
        with self._lock:
            self._closed.set()
            if self._sock is not None:
                with contextlib.suppress(OSError):
                    self._sock.shutdown(socket.SHUT_RDWR)
        self._thread.join()

    def _run(self) -> None:
        back_off = BackOff(_PAUSE_MAX_S)
        while not self._closed.is_set():
            try:
                with contextlib.closing(self._connect()) as sock:
                    with self._lock:
                        self._sock = sock
                    self._follow(sock, back_off)
            except (NotAttached, OSError, SourceUnavailable, ValueError) as error:
                _log.info("the archive of %s is not reached: %s", self._name, error)
            finally:
                with self._lock:
                    self._sock = None
                self.state = None
            self._closed.wait(back_off.failed(_FIRST_PAUSE_S, random.random()))  # noqa: S311 - no secret

    def _follow(self, sock: socket.socket, back_off: BackOff) -> None:
        """Say what is needed, and take reports, until the connection ends.

        Raises:
            NotAttached, OSError, SourceUnavailable, ValueError: it has ended.
        """
        if not own_user(sock):
            raise NotAttached("another user's process has the name of its socket")
        packets = PacketReader(sock, _SILENCE_MAX_S, numbered=False)
        told: Sequence[KeptPosition] | None = None
        while not self._closed.is_set():
            kept = self._kept()
            if kept != told:
                sock.sendall(packets_of(keeps(self._name, kept)))
                told = kept
            packets.fill()
            while (payload := packets.take()) is not None:
                if payload[:1] == bytes([ANSWER]):
                    self.state = json.loads(payload[1:])
                    back_off.reset()
                elif payload[:1] == bytes([DURABLE]):
                    self._reached(end_from(payload))
