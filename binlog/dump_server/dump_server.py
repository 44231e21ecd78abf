"""Dump server: serves the window of one dump to the readers of a machine.

One thread reads the source and sends to the readers, and waits for none of them.
`canal_group.binlog.dump_window` decides what is retained, where a reader begins, which reader was lapped, and
when the source is read on.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import time
from types import TracebackType
from typing import Self

from canal_group.binlog.dump_server.dump import SourceDump
from canal_group.binlog.dump_server.served_reader import ServedReader
from canal_group.binlog.dump_window.readers import Readers
from canal_group.binlog.dump_window.window import Uncovered
from canal_group.binlog.server.dump_server.wire import ERROR, answer, notice, packets_of
from canal_group.merge.errors import CanalGroupError, SourceUnavailable

_log = logging.getLogger(__name__)

#: connections of readers, attached or not; a further one is closed at once
READERS_MAX = 1024
#: after so long without an attached reader, and without a request, the process ends, seconds
UNUSED_S = 10.0
#: between two signs of life while the source sends an event that is not whole yet, seconds
SIGN_OF_LIFE_S = 1.0
_TICK_S = 1.0


class DumpServer:
    """Serves one dump.

    Args:
        listener: the socket on which readers connect; owned by the dump server.
        dump: what is served.
    """

    def __init__(self, listener: socket.socket, dump: SourceDump) -> None:
        self._listener = listener
        self._dump = dump
        self._readers = Readers(dump.window, dump.address.dump_window_bytes_max)
        self._served: dict[int, ServedReader] = {}
        self._numbers = 0
        self._used_s = self._heard_s = self._signed_s = time.monotonic()
        self._reads = False
        listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ, self._accept)

    def run(self) -> None:
        """Serve until no reader has been attached for `UNUSED_S`.

        Raises:
            CanalGroupError: the source ended the dump, or cannot serve it.
        """
        _log.info("dump server of %s from %s:%d", self._dump.address.location, *self._dump.window.tip)
        while time.monotonic() - self._used_s < UNUSED_S:
            self._pace()
            for key, mask in self._selector.select(
                0.0 if self._reads and self._dump.packets.pending else _TICK_S
            ):
                if key.data == self._read:
                    continue
                key.data(mask)
            if self._reads:
                self._read()
            if len(self._readers):
                self._used_s = time.monotonic()
        _log.info(
            "dump server of %s ends: no reader was attached for %g s", self._dump.address.location, UNUSED_S
        )

    def _pace(self) -> None:
        """Read the source, or leave it for now."""
        if self._readers.may_read != self._reads:
            self._reads = not self._reads
            if self._reads:
                self._selector.register(self._dump.packets, selectors.EVENT_READ, self._read)
                self._heard_s = time.monotonic()
            else:
                self._selector.unregister(self._dump.packets)

    def _read(self, _mask: int = 0) -> None:
        """Take what has arrived from the source, and send it on."""
        now_s = time.monotonic()
        if not self._dump.packets.readable():
            if now_s - self._heard_s > self._dump.address.read_timeout_s:
                raise SourceUnavailable("Nothing arrived from the source, not even a heartbeat.")
            return
        self._heard_s = now_s
        before = self._dump.window.end
        for moment_us in self._dump.read():
            self._send()
            self._tell(notice(moment_us))
        self._send()
        self._dump.note_empty()
        if self._dump.window.end == before and now_s - self._signed_s > SIGN_OF_LIFE_S:
            self._tell(notice(None))

    def _send(self) -> None:
        """Send each reader what it lacks, as far as its socket takes it; end those that were lapped."""
        for number in self._readers.lapped():
            self._end(number, "it was too slow, and what it lacks was dropped")
        for number in list(self._served):
            self._send_to(number)

    def _send_to(self, number: int) -> None:
        served = self._served[number]
        if not served.attached:
            return
        try:
            while not self._readers.at_tip(number):
                position = self._readers.position(number)
                size = served.send(position.skip, self._dump.window.blocks(position.number))
                self._readers.sent(number, size)
                if not size:
                    break
            self._wait_for(served, writable=not self._readers.at_tip(number) or served.owes)
        except OSError as error:
            self._end(number, f"its connection broke: {error}")

    def _tell(self, packet: bytes) -> None:
        """Send a notice to the readers that have everything."""
        self._signed_s = time.monotonic()
        for number, served in list(self._served.items()):
            if served.attached and not served.owes and self._readers.at_tip(number):
                try:
                    served.send_packet(packet)
                    self._wait_for(served, writable=served.owes)
                except OSError as error:
                    self._end(number, f"its connection broke: {error}")

    def _wait_for(self, served: ServedReader, *, writable: bool) -> None:
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if writable else 0)
        key = self._selector.get_key(served)
        if key.events != events:
            self._selector.modify(served, events, key.data)

    def _accept(self, _mask: int) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            if len(self._served) >= READERS_MAX:
                sock.close()
                continue
            served = ServedReader(sock)
            number, self._numbers = self._numbers, self._numbers + 1
            self._served[number] = served

            def ready(mask: int, number: int = number) -> None:
                self._ready(number, mask)

            self._selector.register(served, selectors.EVENT_READ, ready)

    def _ready(self, number: int, mask: int) -> None:
        served = self._served.get(number)
        if served is None:
            return
        try:
            if mask & selectors.EVENT_READ:
                self._asked(number, served)
            if number in self._served and mask & selectors.EVENT_WRITE:
                served.send_owed()
                self._send_to(number)
        except (OSError, ValueError, KeyError, TypeError) as error:
            self._end(number, f"its connection ended: {error}")

    def _asked(self, number: int, served: ServedReader) -> None:
        """Answer a reader's request if it has come."""
        request = served.receive()
        if request is None:
            return
        self._used_s = time.monotonic()
        found = self._dump.window.find(request.file, request.offset, request.created_s)
        if not isinstance(found, Uncovered):
            served.send_packet(answer(attached=True) + found.description)
            served.attached = True
            self._readers.attach(number, found)
            self._send_to(number)
            return
        if found is Uncovered.AHEAD:
            self._readers.want(request.file, request.offset)
        file, offset = self._dump.window.tip
        why = f"the position is {found.value}; the dump server has read up to {file}:{offset}"
        served.send_packet(answer(attached=False, why=why))
        self._end(number, why)

    def _end(self, number: int, why: str) -> None:
        served = self._served.pop(number)
        if served.attached:
            _log.info("reader %d of the dump server of %s: %s", number, self._dump.address.location, why)
        self._readers.detach(number)
        self._selector.unregister(served)
        served.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, CanalGroupError):
            text = packets_of(bytes([ERROR]) + error.message.encode())
            for served in self._served.values():
                if not served.inside_packet:
                    with contextlib.suppress(OSError):
                        served.send_packet(text)
        for served in self._served.values():
            served.close()
        self._listener.close()
        self._selector.close()
