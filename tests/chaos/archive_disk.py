"""The disk of an archive: a small one of its own, which can be full, and the processes that write to it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Final

from canal_group.binlog.archive.archive import Archive
from canal_group.binlog.archive.disk import Disk
from canal_group.binlog.archive.history import History
from canal_group.binlog.archive.manifest import State
from canal_group.binlog.archive.object_store import ObjectStore

#: bytes of the disk; a minute writes a tenth of it
DISK_BYTES: Final = 128 << 20
#: parts of it that are used when nothing more is written, and when writing goes on
HIGH, LOW = 0.8, 0.7
_FILLER: Final = "filler"
_PART_BYTES: Final = 1 << 20


class ArchiveDisk:
    """A folder with an archive. It is a disk of its own where this user may mount one.

    Args:
        folder: of the seed, which gets what is on the disk in the end.
        moves: whether closed files move to an object store.
    """

    def __init__(self, folder: Path, *, moves: bool) -> None:
        self._seed = folder
        self._disk = folder / "disk"
        self._disk.mkdir()
        self.folder = self._disk / "archive"
        #: address of the object store; None: no object store
        self.store = str(folder / "objects") if moves else None
        self.is_small = _mounted(self._disk)

    def archive(self) -> Archive:
        """Return the archive, to read it."""
        return Archive(Disk(), self.folder, store=ObjectStore(self.store) if self.store is not None else None)

    def has_all_before(self, server: str, file: str) -> str:
        """Return the file from which on an archive has all that is before another one; empty: it does not.

        Args:
            server: identity of the server whose files these are.
            file: that other one, which has been begun.
        """
        history = self._newest(server)
        if history is None:
            return ""
        files = [each for each in history.manifest.files if each.state is not State.PRUNED]
        names = [each.name for each in files]
        if file not in names:
            return ""
        before = files[: names.index(file)]
        whole = bool(before) and all(each.state in {State.CLOSED, State.MOVED} for each in before)
        return names[0] if whole else ""

    def _newest(self, server: str) -> History | None:
        return self.archive().newest(server) if self.folder.exists() else None

    # ---- faults ----------------------------------------------------------------------------------------

    def fill(self, *, whole: bool) -> None:
        """Use the disk up: all of it, or so much that it is above the high mark."""
        size = DISK_BYTES if whole else int(DISK_BYTES * HIGH)
        with (self._disk / _FILLER).open("wb", buffering=0) as filler, contextlib.suppress(OSError):
            for _ in range(size // _PART_BYTES):
                filler.write(bytes(_PART_BYTES))

    def clear(self) -> None:
        """Undo `fill`."""
        (self._disk / _FILLER).unlink(missing_ok=True)

    @property
    def writers(self) -> list[int]:
        """The processes of all dump servers of this seed, by pid."""
        return sorted(int(each.name) for each in Path("/proc").glob("[0-9]*") if self._is_writer(each))

    def writer(self, server: str) -> int | None:
        """Return the process that writes the binlog of a server; None: none does."""
        return next(iter(processes_with(self.folder / f"{server}.lock")), None)

    def _is_writer(self, process: Path) -> bool:
        """Return whether a process is a dump server that an actor of this seed has started."""
        try:
            program = (process / "cmdline").read_bytes()
            return b"canal_group.binlog.dump_server\0" in program and (
                f"CHAOS_CLOCK={self._seed}/".encode() in (process / "environ").read_bytes()
            )
        except OSError:
            return False

    # ---- the end ---------------------------------------------------------------------------------------

    def end_writers(self) -> None:
        """Kill all dump servers: they would live for another minute."""
        for pid in self.writers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        """End what writes, and keep what is on the disk in the folder of the seed."""
        self.end_writers()
        self.clear()
        if self.is_small:
            kept = self._seed / "archive"
            shutil.copytree(self._disk, kept, dirs_exist_ok=True)
            subprocess.run(["umount", "-l", self._disk], check=True)


def _mounted(folder: Path) -> bool:
    """Mount a small disk, and return whether that is allowed here."""
    if shutil.which("mount") is None or os.geteuid():
        return False
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def processes_with(file: Path) -> list[int]:
    """Return the processes that have a file open."""
    found = set()
    for each in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if each.readlink() == file:
                found.add(int(each.parts[2]))
    return sorted(found - {os.getpid()})
