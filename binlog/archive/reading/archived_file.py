"""Archived file: a binlog file of an archive that can be opened like one in a folder."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from canal_group.binlog.archive.archive import Archive
from canal_group.binlog.archive.disk import Disk
from canal_group.binlog.archive.forms.key import NO_KEYS, read_keys
from canal_group.binlog.archive.forms.readable import KnownBytes, ReadableStream
from canal_group.binlog.archive.history import History, scan_rest
from canal_group.binlog.archive.manifest import MANIFEST, State
from canal_group.merge.errors import UsageError


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """A file of a history, see `BinlogFile`."""

    history: History
    #: its name at the server
    name: str

    def open(self, mode: Literal["rb"], buffering: Literal[0]) -> io.RawIOBase:  # noqa: ARG002 - as a Path has
        """Open it to read; of the open file, up to its last whole transaction.

        Raises:
            PositionPurged, SourceUnfit, CorruptEvent: see `History.open`.
        """
        entry = self.history.manifest.entry(self.name)
        if entry is None or entry.state is not State.OPEN:
            return ReadableStream(self.history.open(self.name))
        points = self.history.points(entry)
        scan, source = self.history.scan_from(entry, points[-1] if points else None)
        try:
            scan_rest(scan, source)
        except BaseException:
            source.close()
            raise
        return ReadableStream(KnownBytes(source, self.history.where(entry), scan.whole_end))

    def __str__(self) -> str:
        return f"{self.history.folder}/{self.name}"


def archived_files(folder: Path, key_file: Path | None = None) -> list[ArchivedFile] | None:
    """Return the files of a history, or of an archive with one history; None if the folder is neither.

    Args:
        folder: its path.
        key_file: the keys that decrypt it; None: it is not encrypted.

    Raises:
        UsageError: the archive has several histories.
        ConfigError: the key file cannot be read.
        CorruptEvent, UnsupportedEvent: its manifest cannot be read.
    """
    disk, keys = Disk(), NO_KEYS if key_file is None else read_keys(key_file)
    if (folder / MANIFEST).is_file() and "@" in folder.name:
        history = History(disk, folder, keys, None)
    else:
        histories = [each for each in Archive(disk, folder, keys).histories() if each.manifest.files]
        if not histories:
            return None
        if len(histories) > 1:
            raise UsageError(
                f"{folder} is an archive of {len(histories)} histories.",
                hint=f"Name the folder of one of them, such as {histories[-1].folder}.",
                found=len(histories),
            )
        history = histories[0]
    return [
        ArchivedFile(history, each.name) for each in history.manifest.files if each.state is not State.PRUNED
    ]
