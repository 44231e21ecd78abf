"""Dump server: serves the window of one dump to the readers of a machine, and archives the source.

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
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from canal_group.binlog.dump_server.dump import SourceDump
from canal_group.binlog.dump_server.dumping import Dumping
from canal_group.binlog.dump_server.served_reader import Damaged, Kept, ServedReader
from canal_group.binlog.dump_window.read_pace import ReadPace
from canal_group.binlog.dump_window.readers import Readers
from canal_group.binlog.dump_window.window import Uncovered
from canal_group.binlog.server.dump_server.wire import ERROR, answer, durable, notice, packets_of
from canal_group.binlog.server.source import SourceAddress
from canal_group.merge.errors import CanalGroupError, SourceUnavailable
from canal_group.merge.values.retention.kept_position import KeptPosition

_log = logging.getLogger(__name__)

#: connections of readers, attached or not; a further one is closed at once
READERS_MAX = 1024
#: after so long without an attached reader, and without a request, the process ends, seconds
UNUSED_S = 10.0
#: likewise with an archive, whose instance may be starting again; what one keeper said is forgotten as late
ARCHIVE_UNUSED_S = 60.0
#: between two reports of the archive's state, seconds
REPORT_EVERY_S = 1.0
#: between two signs of life while the source sends an event that is not whole yet, seconds
SIGN_OF_LIFE_S = 1.0
_TICK_S = 1.0


class DumpServer:
    """Serves one source.

    Args:
        listener: the socket on which readers connect; owned by the dump server.
        address: the source.
        server: identity of the server that must answer.
        file: file at which the reader that starts the dump server is positioned.
        offset: offset of this reader in `file`.
    """

    def __init__(
        self, listener: socket.socket, address: SourceAddress, server: str, file: str, offset: int
    ) -> None:
        self._listener = listener
        self._dumping = Dumping(address, server, file, offset, self._kept)
        self._unused_s = UNUSED_S if address.archive is None else ARCHIVE_UNUSED_S
        #: the dump that is served, and its readers; None: no dump runs now
        self._dump: SourceDump | None = None
        self._readers: Readers | None = None
        self._served: dict[int, ServedReader] = {}
        #: what each keeper has said last, also one that has just left: it may be starting again
        self._keepers: dict[str, Kept] = {}
        #: when each of them was connected last
        self._kept_s: dict[str, float] = {}
        self._numbers = 0
        self._used_s = self._heard_s = self._signed_s = time.monotonic()
        self._reported_s = 0.0
        self._reads = False
        self._read_pace = ReadPace()
        listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ, self._accept)

    def run(self) -> None:
        """Serve until no reader and no keeper has been attached for some time, or the archive was removed.

        Raises:
            CanalGroupError: the source ended the dump, or cannot serve it, and there is no archive.
        """
        while time.monotonic() - self._used_s < self._unused_s and not self._is_removed:
            try:
                self._turn()
            except CanalGroupError as error:
                self._lose(error)
            self._report()
            if any(served.attached or served.kept is not None for served in self._served.values()):
                self._used_s = time.monotonic()
        _log.info("dump server of %s ends: nobody uses it", self._location)

    @property
    def _is_removed(self) -> bool:
        """Whether the archive's folder was removed after all who need it had left."""
        archive = self._dumping.address.archive
        if archive is None or not self._numbers or self._served:
            return False
        with contextlib.suppress(OSError):
            return not Path(archive.folder).exists()
        return False

    @property
    def _location(self) -> str:
        return self._dumping.address.location

    def _kept(self) -> list[KeptPosition] | None:
        """Return the positions of keepers; None: none has come yet."""
        keepers = list(self._keepers.values())
        if not keepers:
            return None
        return [
            replace(each, owner=f"{each.owner} of {kept.name}") for kept in keepers for each in kept.positions
        ]

    def _turn(self) -> None:
        dump = self._dumping.begin(time.monotonic())
        if dump is not None:
            self._begin(dump)
        dump = self._dump
        if dump is not None:
            self._pace(dump)
        at_once = dump is not None and self._reads and dump.packets.pending
        for key, mask in self._selector.select(0.0 if at_once else _TICK_S):
            if key.data is not None:
                key.data(mask)
        if dump is not None:
            self._tell_end(dump)
            if self._reads:
                self._read(dump)

    def _begin(self, dump: SourceDump) -> None:
        _log.info("dump server of %s from %s:%d", self._location, *dump.window.tip)
        self._dump, self._readers = dump, Readers(dump.window, dump.address.dump_window_bytes_max)
        if dump.intake is not None:
            wake = dump.intake.wake
            self._selector.register(wake, selectors.EVENT_READ, lambda _mask: wake.clear())

    def _lose(self, error: CanalGroupError) -> None:
        """End the dump that is served, and its readers.

        Raises:
            CanalGroupError: there is no archive.
        """
        dump, self._dump = self._dump, None
        if dump is not None:
            self._refuse(error)
            if self._reads:
                self._selector.unregister(dump.packets)
                self._reads = False
            if dump.intake is not None:
                self._selector.unregister(dump.intake.wake)
            self._readers = None
        self._dumping.failed(error, time.monotonic())

    def _refuse(self, error: CanalGroupError) -> None:
        """Tell all readers why the dump ends."""
        text = packets_of(bytes([ERROR]) + error.message.encode())
        for number, served in list(self._served.items()):
            if served.kept is not None:
                continue
            if not served.inside_packet:
                with contextlib.suppress(OSError):
                    served.send_packet(text)
            self._end(number, error.message)

    def _pace(self, dump: SourceDump) -> None:
        """Read the source, or leave it for now: an archive waits for no reader."""
        dump.require()
        assert self._readers is not None, "a dump has readers"
        if (self._readers.may_read if dump.intake is None else not dump.intake.full) != self._reads:
            self._reads = not self._reads
            if self._reads:
                self._selector.register(dump.packets, selectors.EVENT_READ)
                self._heard_s = time.monotonic()
            else:
                self._selector.unregister(dump.packets)

    def _read(self, dump: SourceDump) -> None:
        """Take what has arrived from the source, and send it on."""
        if not dump.packets.readable():
            if time.monotonic() - self._heard_s > dump.address.read_timeout_s:
                raise SourceUnavailable("Nothing arrived from the source, not even a heartbeat.")
            return
        if not dump.replies:
            dump.packets.let_arrive(self._read_pace.pause_s(time.monotonic()))
        now_s = self._heard_s = time.monotonic()
        before, read_bytes = dump.window.end, dump.packets.read_bytes
        for moment_us in dump.read():
            self._send()
            self._tell(notice(moment_us))
        self._send()
        size, emptied = dump.packets.read_bytes - read_bytes, dump.note_empty()
        self._read_pace.read(size, now_s, emptied=emptied)
        if dump.window.end == before and now_s - self._signed_s > SIGN_OF_LIFE_S:
            self._tell(notice(None))

    def _report(self) -> None:
        """Tell keepers the state of the archive, if that is due."""
        now_s = time.monotonic()
        if now_s - self._reported_s < REPORT_EVERY_S:
            return
        self._reported_s = now_s
        self._forget_keepers(now_s)
        state = answer(**self._dumping.describe())
        for number, served in list(self._served.items()):
            if served.kept is not None and not served.owes:
                self._send_own(number, served, state)

    def _forget_keepers(self, now_s: float) -> None:
        """Forget the positions of keepers that have left for good."""
        self._kept_s.update({served.kept.name: now_s for served in self._served.values() if served.kept})
        for name in list(self._keepers):
            # One that has left before the first report is counted from now on.
            if now_s - self._kept_s.setdefault(name, now_s) > self._unused_s:
                del self._kept_s[name], self._keepers[name]

    def _tell_end(self, dump: SourceDump) -> None:
        """Tell the source and keepers up to where the archive is durable, if they were not told that."""
        end = None if dump.intake is None else dump.intake.end
        if end is None:
            return
        dump.reply(end)
        for number, served in list(self._served.items()):
            if served.kept is not None and served.told != end and not served.owes:
                served.told = end
                self._send_own(number, served, durable(end))

    def _send(self) -> None:
        """Send each reader the next events, as far as its socket takes them; end readers that were lapped."""
        assert self._readers is not None, "a dump has readers"
        for number in self._readers.lapped():
            self._end(number, "it was too slow, and what it lacks was dropped")
        for number in list(self._served):
            self._send_to(number)

    def _send_to(self, number: int) -> None:
        served = self._served[number]
        if not served.attached or self._dump is None or self._readers is None:
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
        assert self._readers is not None, "a dump has readers"
        self._signed_s = time.monotonic()
        for number, served in list(self._served.items()):
            if served.attached and not served.owes and self._readers.at_tip(number):
                self._send_own(number, served, packet)

    def _send_own(self, number: int, served: ServedReader, packet: bytes) -> None:
        """Send a packet of the dump server's own, as soon as the socket takes it."""
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
        if isinstance(request, Kept):
            self._keepers[request.name] = request
            return
        if isinstance(request, Damaged):
            if self._dump is not None and self._dump.intake is not None:
                self._dump.intake.suspect(request.where)
            self._end(number, "it has said what is damaged")
            return
        if self._dump is None or self._readers is None:
            served.send_packet(answer(attached=False, why=f"the source is not dumped: {self._dumping.why}"))
            self._end(number, "there is no dump")
            return
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
            _log.info("reader %d of the dump server of %s: %s", number, self._location, why)
        if self._readers is not None:
            self._readers.detach(number)
        self._selector.unregister(served)
        served.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, CanalGroupError):
            self._refuse(error)
        for served in self._served.values():
            served.close()
        self._listener.close()
        self._selector.close()
        self._dumping.close()
