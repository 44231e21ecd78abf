"""Sent file: one closed binlog file of a source, as that sends it: its bytes, to replace a damaged copy."""

from __future__ import annotations

import threading

from canal_group.binlog.archive.manifest import FileEntry
from canal_group.binlog.dump_server.dump import HEARTBEATS
from canal_group.binlog.formats.events import ARTIFICIAL_FLAG, MAGIC, header_of
from canal_group.binlog.server.dump.dump_connection import DumpConnection
from canal_group.binlog.server.dump.dump_request import dump_from
from canal_group.binlog.server.source import SourceAddress
from canal_group.binlog.server.starts.binary_logs import binlog_sizes
from canal_group.binlog.server.starts.logged import next_event
from canal_group.merge.errors import CorruptEvent, PositionPurged, RetryableError, SourceUnavailable


class SentFile:
    """A `Readable` that is read once, from its beginning on; it has a connection of its own to the source.

    Args:
        address: the source.
        server: identity of the server that must answer.
        entry: the file.
        stopped: ends a read that waits for the source.

    Raises:
        SourceUnavailable, SourceUnfit: the source does not answer, or another server does.
        PositionPurged: it does not have the file, or another one of the name.
    """

    def __init__(
        self, address: SourceAddress, server: str, entry: FileEntry, stopped: threading.Event
    ) -> None:
        self._address, self._entry, self._stopped = address.scanner("repair"), entry, stopped
        self.size = entry.size
        self._held, self._begin = bytearray(MAGIC), 0
        self._connection = DumpConnection(self._address, replies=False)
        try:
            self._require(server)
            self._connection.register(checksums=True)
            annotations = self._connection.facts.mariadb
            self._packets = self._connection.request(
                dump_from(entry.name, len(MAGIC), self._address.server_id, annotations=annotations)
            )
        except BaseException:
            self._connection.close()
            raise

    def _require(self, server: str) -> None:
        found = self._connection.facts.identity
        if found != server:
            raise SourceUnavailable(f"Server {found} answers instead of {server}.")
        sizes = binlog_sizes(self._address, self._connection.connection)
        if sizes.get(self._entry.name) != self._entry.size:
            has = f"has another {self._entry.name}" if self._entry.name in sizes else "no longer has it"
            raise PositionPurged(f"The source {self._address.location} {has}.", file=self._entry.name)

    def read_at(self, offset: int, size: int) -> bytes:
        """Return the next bytes, see `Readable`.

        Raises:
            SourceUnavailable: the source does not send them.
            CorruptEvent: it sends another file.
            RetryableError: it was stopped.
        """
        assert offset == self._begin, "it is read once"
        while not self._held and offset < self.size:
            self._take(next_event(self._address, self._packets))
        data = bytes(self._held[:size])
        del self._held[:size]
        self._begin += len(data)
        return data

    def _take(self, event: bytes) -> None:
        """Take an event that is in the file."""
        if self._stopped.is_set():
            raise RetryableError("The copy of a damaged file was stopped.")
        header = header_of(event)
        if not header.log_pos or header.flags & ARTIFICIAL_FLAG or header.event_type in HEARTBEATS:
            return
        if self._begin == len(MAGIC) and header.timestamp != self._entry.created_s:
            raise CorruptEvent(f"{self._entry.name} of the source was created at another time.")
        self._held += event

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
