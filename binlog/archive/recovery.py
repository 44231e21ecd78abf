"""Recovery: makes a history what it was at its last whole transaction, whatever a crash has left.

- The open file is checked from its beginning. What follows its last whole transaction is cut: the source
  sends it again.
- An event that is damaged below what was durable comes of no crash: a copy of the file is kept as
  `NAME.quarantined` before the file is cut in the same way.
- A closed file that is missing or too short is quarantined: the manifest says which bytes it lacks.
- A file that the manifest does not name is set aside as `NAME.orphan`, unless it is another form of one
  that it names, or a temporary one: these are removed.

Each is said in a sentence. Nothing is repeated: a recovery of what is whole changes nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from canal_group.binlog.archive.disk import FileLayer, aside
from canal_group.binlog.archive.file_scan import FileScan
from canal_group.binlog.archive.forms.blocks import BlocksFile
from canal_group.binlog.archive.forms.key import Key, Keys
from canal_group.binlog.archive.history import History, scan_to_end
from canal_group.binlog.archive.manifest import INDEX_SUFFIX, MANIFEST, SUFFIXES, FileEntry, Form, State
from canal_group.binlog.archive.open_binlog import OpenBinlog, WrittenFile, form_to_write
from canal_group.merge.errors import CorruptEvent
from canal_group.merge.values.gtids.gtid import parse_gtid_set

#: takes a sentence for the operator
Say = Callable[[str], None]
_COPY_BYTES: Final = 1 << 20


class Recovery:
    """Recovers one history, under the lock of its server.

    Args:
        disk: where it is.
        history: what is recovered.
        keys: what decrypts it.
        say: takes what was done.
    """

    def __init__(self, disk: FileLayer, history: History, keys: Keys, say: Say) -> None:
        self._disk, self._history, self._keys, self._say = disk, history, keys, say

    def run(self) -> OpenBinlog | None:
        """Recover, and return the open file; None if there is none.

        Raises:
            SourceUnfit: the open file is encrypted with another key; nothing was changed.
            OSError: the disk.
        """
        last = self._history.manifest.last
        if last is not None and last.key:
            self._keys.by_id(last.key, self._history.where(last))
        self._tidy()
        for entry in self._history.manifest.files:
            if entry.state is State.CLOSED:
                self._check_closed(entry)
        return self._open(last) if last is not None and last.state is State.OPEN else None

    def _tidy(self) -> None:
        """Remove what a crash has left beside the files of the manifest, and set others aside."""
        folder = self._history.folder
        entries = {entry.name: entry for entry in self._history.manifest.files}
        there = {entry.stored_name for entry in entries.values() if entry.here}
        changed = False
        for name in self._disk.names(folder):
            base = _base(name)
            known = name in there or name == MANIFEST or name.endswith((".orphan", ".quarantined"))
            if known or (name.endswith(INDEX_SUFFIX) and base in entries):
                continue
            entry = entries.get(base)
            if name.endswith(".tmp") or (
                entry is not None
                and entry.state is not State.OPEN
                and (not entry.here or self._disk_has(entry.stored_name))
            ):
                self._disk.remove(folder / name)
            else:
                orphan = self._set_aside(folder / name, "orphan")
                self._say(
                    f"{self._history.name}/{name} is not in the manifest: it is of another writer, or older. "
                    f"It was set aside as {orphan.name}."
                )
            changed = True
        if changed:
            self._disk.sync_folder(folder)

    def _disk_has(self, name: str) -> bool:
        return name in self._disk.names(self._history.folder)

    def _check_closed(self, entry: FileEntry) -> None:
        stored = 0
        if self._disk_has(entry.stored_name):
            with contextlib.closing(self._disk.open(self._history.path(entry))) as opened:
                stored = opened.size
        if stored < entry.stored:
            begin = stored if entry.form is Form.PLAIN else 0
            self._history.put(replace(entry, state=State.QUARANTINED, damaged=((begin, entry.size),)))
            self._say(
                f"{self._history.where(entry)} has {stored:,} of its {entry.stored:,} bytes: it is "
                "quarantined, and copied anew while its source is archived, or by `canal-group archive "
                "adopt`."
            )

    def _open(self, entry: FileEntry) -> OpenBinlog | None:
        """Return the open file as it is after its last whole transaction; None if it has no event."""
        path = self._history.path(entry)
        try:
            stored = self._disk.open(path, append=True)
        except FileNotFoundError:
            self._forget(entry, "is missing, and begins anew")
            return None
        file = form_to_write(stored, entry, self._key(entry))
        try:
            return self._recovered(entry, path, file)
        except BaseException:
            file.close()
            raise

    def _recovered(self, entry: FileEntry, path: Path, file: WrittenFile) -> OpenBinlog | None:
        scan = self._scan(entry)
        size, damage = file.size, ""
        try:
            scan_to_end(scan, file)
        except CorruptEvent as error:
            damage = str(error)
        whole = scan.whole_end
        if not scan.created_s:
            file.close()
            if entry.size:
                self._set_aside(path, "quarantined")
            else:
                self._disk.remove(path)
            self._forget(entry, f"had no whole event in {size:,} bytes, and begins anew")
            return None
        rest = size - scan.offset + (file.torn if isinstance(file, BlocksFile) else 0)
        why = damage or _why_cut(scan, rest, entry)
        if rest and scan.offset < entry.size:
            copy = self._copy_aside(path)
            self._say(
                f"{self._history.where(entry)} was damaged below what was durable; {copy.name} has its "
                f"bytes. It goes on after its last whole transaction, at {whole:,}: {why}."
            )
        elif rest or whole < max(size, entry.size):
            self._say(f"{self._history.where(entry)} was cut to {whole:,} of {size:,} bytes: {why}.")
        if whole < entry.size:
            self._history.put(replace(entry, size=whole))
        if rest or whole < size:
            file.truncate(whole)
        file.sync()
        if whole != scan.offset:
            scan = self._scan(entry)
            scan_to_end(scan, file)
        return OpenBinlog(self._history, scan, file)

    def _copy_aside(self, path: Path) -> Path:
        """Copy a damaged file to a name that no other one has, and return it."""
        name = aside(self._disk, path, "quarantined")
        source, made = self._disk.open(path), self._disk.create(name)
        with contextlib.closing(source), contextlib.closing(made):
            at = 0
            while data := source.read_at(at, _COPY_BYTES):
                made.append(data)
                at += len(data)
            made.sync()
        self._disk.sync_folder(path.parent)
        return name

    def _forget(self, entry: FileEntry, why: str) -> None:
        """Forget an open file of which there is nothing: the source sends it again."""
        self._disk.sync_folder(self._history.folder)
        self._history.forget(entry.name)
        self._say(f"{self._history.where(entry)} {why}; {entry.size:,} bytes were known to be durable.")

    def _scan(self, entry: FileEntry) -> FileScan:
        gtids = parse_gtid_set(entry.gtids_before)
        return FileScan(entry.name, self._history.name, gtids, sent=True, description=entry.description)

    def _key(self, entry: FileEntry) -> Key | None:
        return self._keys.by_id(entry.key, self._history.where(entry)) if entry.key else None

    def _set_aside(self, file: Path, why: str) -> Path:
        """Rename a file to a name that no other one has, and return it."""
        name = aside(self._disk, file, why)
        self._disk.rename(file, name)
        return name


def _why_cut(scan: FileScan, rest: int, entry: FileEntry) -> str:
    """Return why an open file is cut in which no event is damaged, as a part of a sentence."""
    if rest:
        return "an event was not whole"
    if scan.in_transaction:
        return "a transaction was not whole"
    return f"{entry.size:,} bytes of it were durable, and the rest is missing"


def _base(name: str) -> str:
    """Strip the suffix of a form, or of the index, from a file name; the result names the binlog file."""
    for suffix in (*SUFFIXES.values(), INDEX_SUFFIX):
        if suffix and name.endswith(suffix):
            return name.removesuffix(suffix)
    return name
