"""A source whose dump server archives it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from support.binlog.archived import content, options_of
from support.deadline import await_true
from support.sources.dumped_source import Source, dump_server_pids

from canal_group.binlog.archive.archive import Archive
from canal_group.binlog.archive.disk import Disk
from canal_group.binlog.archive.operating.verification import verify
from canal_group.binlog.files.binlog_files import files_in
from canal_group.binlog.server.source import SourceAddress, connect, server_facts
from canal_group.merge.errors import PositionPurged, SourceUnavailable

#: in a file's head, flags that say that its server has it open
IN_USE_AT = 21


class Archived(Source):
    """A server of the test's own whose dump server archives it."""

    def __init__(self, server: Any, address: Callable[..., SourceAddress], folder: Path) -> None:
        super().__init__(server, address)
        object.__setattr__(self, "options", replace(options_of(folder), sync_s=0.0, disk_high=1.0))
        object.__setattr__(self, "archive", Archive(Disk(), folder))
        object.__setattr__(self, "semi_sync", "off")

    def reader(self, number: int = 0, **changes: Any) -> SourceAddress:
        """Return the address for a reader; changes of `archive` are those of its options."""
        return super().reader(number, **{"archive": self.options, "semi_sync": self.semi_sync, **changes})

    def dump_server(self) -> int:
        """Return the process of the dump server, once there is one."""
        await_true(lambda: dump_server_pids(self.reader()), "a dump server")
        return super().dump_server()

    @property
    def files(self) -> list[Path]:
        """The server's binlog files."""
        return files_in(Path(self.server.folder) / "data")

    def is_whole(self) -> bool:
        """Return whether the newest history has all files that the server has now, byte for byte."""
        histories = self.archive.histories()
        if not histories:
            return False
        history = histories[-1]
        try:
            return all(
                history.manifest.entry(path.name) and content(history, path.name) == as_sent(path)
                for path in self.files
            )
        except (PositionPurged, SourceUnavailable):
            return False  # it has just been begun, perhaps by a process that was killed meanwhile

    def await_whole(self) -> None:
        """Wait until it has them, and check everything that the archive has."""
        await_true(self.is_whole, "the archive has the server's files")
        for history in self.archive.histories():
            assert not [each.wrong for each in verify(history) if each.wrong]


def as_sent(path: Path) -> bytes:
    data = bytearray(path.read_bytes())
    data[IN_USE_AT] &= ~1  # as a server sends it, and mysqlbinlog --raw writes it
    return bytes(data)


def server_of(archived: Archived) -> str:
    address = archived.reader()
    with contextlib.closing(connect(address)) as connection:
        return server_facts(address, connection).identity
