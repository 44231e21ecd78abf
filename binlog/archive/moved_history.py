"""Moved history: the manifest of a history beside its files in an object store, for other machines.

    SERVER@CREATED/manifest.json.eEPOCH.NUMBER

A process that archives the same server elsewhere, and has nothing of it, goes on after the files in the
store. Its manifests have a greater epoch: the newest one holds, and none is overwritten.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from canal_group.binlog.archive.disk import FileLayer, create_anew
from canal_group.binlog.archive.history import History
from canal_group.binlog.archive.manifest import (
    MANIFEST,
    FileEntry,
    Manifest,
    State,
    manifest_bytes,
    parse_manifest,
)
from canal_group.binlog.archive.store import Store
from canal_group.merge.errors import CorruptEvent
from canal_group.merge.file_name import shown
from canal_group.merge.values.position import file_order

_NAME: Final = re.compile(rf".*/{re.escape(MANIFEST)}\.e(?P<epoch>\d+)\.(?P<number>\d+)")
#: the order of a name that is not a manifest's
_NONE: Final = (-1, -1)
_HISTORY: Final = re.compile(r"[0-9A-Za-z-]+@\d+(\.\d+)?")
_TEMPORARY: Final = f"{MANIFEST}.moved.tmp"


def moved_files(manifest: Manifest) -> tuple[FileEntry, ...]:
    """Return the files of a history that are in the store."""
    return tuple(each for each in manifest.files if each.state is State.MOVED)


def publish(
    disk: FileLayer, store: Store, history: History, files: tuple[FileEntry, ...], epoch: int, number: int
) -> None:
    """Put the manifest of the files in the store there, and remove earlier ones. Any thread may do that.

    Args:
        disk: where the history is.
        store: where its files are.
        history: whose files these are.
        files: those that are in the store.
        epoch: that of the writer.
        number: of this manifest under the epoch.

    Raises:
        OSError: the disk fails.
        RetryableError: the store does not answer.
    """
    begin = f"{history.name}/{MANIFEST}.e"
    earlier = [name for name in store.names(begin) if _NONE < _order(name) < (epoch, number)]
    temporary = history.folder / _TEMPORARY
    with contextlib.closing(create_anew(disk, temporary)) as made:
        made.append(manifest_bytes(replace(history.manifest, files=files)))
    try:
        store.put(f"{begin}{epoch}.{number}", temporary)
    finally:
        disk.remove(temporary)
    for name in earlier:
        store.remove(name)


def found_moved(store: Store, server: str) -> tuple[str, Manifest] | None:
    """Return the name of the newest history of a server that is in a store, and its files there.

    Raises:
        CorruptEvent, UnsupportedEvent: its manifest cannot be read.
        RetryableError: the store does not answer.
    """
    found = list[tuple[str, Manifest]]()
    for folder in store.folders(f"{server}@"):
        if not _HISTORY.fullmatch(folder):
            raise CorruptEvent(
                f"The object store has a folder {shown(folder)}, which is not a history of server {server}.",
                hint="Move it out of the store.",
                file=folder,
            )
        names = store.names(f"{folder}/{MANIFEST}.e")
        names = sorted((name for name in names if _order(name) > _NONE), key=_order)
        if names:
            with contextlib.closing(store.open(names[-1])) as stored:
                manifest = parse_manifest(stored.read_at(0, stored.size), names[-1], folder)
            files = _without_gaps(manifest.files)
            if files:
                found.append((folder, replace(manifest, files=files)))
    return max(found, key=lambda each: (each[1].created_s, len(each[0]), each[0]), default=None)


def _without_gaps(files: Iterable[FileEntry]) -> tuple[FileEntry, ...]:
    """Return the last files of a history, after the last gap between file numbers."""
    kept = list[FileEntry]()
    for each in files:
        if kept:
            (base, number), (its_base, its_number) = file_order(kept[-1].name), file_order(each.name)
            if (its_base, its_number) != (base, number + 1):
                kept.clear()
        kept.append(each)
    return tuple(kept)


def _order(name: str) -> tuple[int, int]:
    match = _NAME.fullmatch(name)
    return (int(match["epoch"]), int(match["number"])) if match else _NONE
