"""Export: files of a history as binlog files, which any tool of the servers reads."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from canal_group.binlog.archive.disk import PRIVATE, PRIVATE_FOLDER
from canal_group.binlog.archive.history import History
from canal_group.binlog.archive.manifest import State
from canal_group.binlog.archive.reading.archived_file import ArchivedFile
from canal_group.merge.errors import UsageError
from canal_group.merge.file_name import file_name

_READ_BYTES: Final = 1 << 20


def export(history: History, names: Sequence[str], folder: Path) -> Iterator[tuple[Path, int]]:
    """Write files, of the open one up to its last whole transaction, and yield each path and its bytes.

    What a file holds is checked by its checksums, but not its events: see `verify`.

    Args:
        history: whose files.
        names: which ones, by their names at the server; empty: all.
        folder: where to; made if it does not exist.

    Raises:
        PositionPurged, SourceUnfit, CorruptEvent: a file cannot be read; it is not left there in part.
        UsageError: a name cannot be that of a file, the folder has such a file already, or cannot be
            written to.
    """
    present = [each.name for each in history.manifest.files if each.state is not State.PRUNED]
    try:
        folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        for name in names or present:
            path = folder / file_name(name)
            if path.exists():
                raise UsageError(f"{path} exists already.", hint="Export into an empty folder.")
            temporary = path.with_name(file_name(f"{name}.tmp"))
            try:
                size = _write(ArchivedFile(history, name), temporary)
                temporary.replace(path)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
            yield path, size
    except OSError as error:
        raise UsageError(f"{error.filename or folder} cannot be written: {error.strerror}.") from error


def _write(file: ArchivedFile, path: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE)
    with os.fdopen(descriptor, "wb") as target, file.open("rb", 0) as source:
        while data := source.read(_READ_BYTES):
            target.write(data)
        return target.tell()
