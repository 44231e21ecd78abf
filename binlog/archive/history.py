"""History: one folder of an archive, with the binlog files of one server from one beginning on.

    SERVER@CREATED/
        manifest.json           what there is, see `manifest`
        mysql-bin.000001.zst    a closed file, see `forms.frames`
        mysql-bin.000001.index  where a reader may begin in it, see `points`
        mysql-bin.000002        the open file

Any number of processes read it while one writes: each file is replaced by another form of it only when that
    is durable and named in the manifest, so a reader that misses one reads the manifest again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from canal_group.binlog.archive.disk import FileLayer, read_whole, replace_whole
from canal_group.binlog.archive.file_scan import EVENT_BYTES_MAX, FileScan
from canal_group.binlog.archive.forms.blocks import BlocksFile
from canal_group.binlog.archive.forms.frames import FrameCodec, FramesFile
from canal_group.binlog.archive.forms.key import Keys
from canal_group.binlog.archive.forms.readable import KnownBytes, Readable
from canal_group.binlog.archive.manifest import (
    INDEX_SUFFIX,
    MANIFEST,
    FileEntry,
    Form,
    Manifest,
    State,
    manifest_bytes,
    parse_manifest,
)
from canal_group.binlog.archive.points import Point, parse_points
from canal_group.binlog.archive.store import Store
from canal_group.binlog.formats.events import MAGIC
from canal_group.merge.errors import (
    CanalGroupError,
    CorruptEvent,
    PositionPurged,
    SourceUnavailable,
    SourceUnfit,
)
from canal_group.merge.file_name import file_name
from canal_group.merge.values.gtids.gtid import parse_gtid_set

#: bytes that are read at a time
_READ_BYTES: Final = 1 << 20


class History:
    """Reads one folder.

    Args:
        disk: where it is.
        folder: its path.
        keys: what decrypts it.
        store: where moved files are; None: nowhere.

    Raises:
        SourceUnfit, CorruptEvent, UnsupportedEvent: its manifest cannot be read.
    """

    def __init__(self, disk: FileLayer, folder: Path, keys: Keys, store: Store | None) -> None:
        self._disk, self.folder, self._keys, self._store = disk, folder, keys, store
        self.manifest: Manifest = self.refresh()

    @property
    def name(self) -> str:
        """Name of the folder: identity of the server, and when the first file was created."""
        return self.folder.name

    def refresh(self) -> Manifest:
        """Read the manifest again, and return it.

        Raises:
            SourceUnfit, CorruptEvent, UnsupportedEvent: it cannot be read.
        """
        file = self.folder / MANIFEST
        try:
            data = read_whole(self._disk, file)
        except OSError as error:
            raise SourceUnfit(f"{file} cannot be read: {error.strerror}.", file=str(file)) from error
        self.manifest = parse_manifest(data, str(file), self.name)
        return self.manifest

    def put(self, entry: FileEntry) -> None:
        """Replace a file's entry, or add it at the end, durably. Call it under the lock of the server.

        Raises:
            OSError: it is not sure to be durable.
        """
        self._write(self.manifest.with_file(entry))

    def forget(self, name: str) -> None:
        """Remove a file's entry, likewise: it has never been there."""
        self._write(self.manifest.without(name))

    def _write(self, manifest: Manifest) -> None:
        replace_whole(self._disk, self.folder / MANIFEST, manifest_bytes(manifest))
        self.manifest = manifest

    def path(self, entry: FileEntry, suffix: str = "") -> Path:
        """Return where a file is stored, or a temporary one beside it whose name ends in `suffix`."""
        return self.folder / file_name(entry.stored_name + suffix)

    def index_path(self, entry: FileEntry) -> Path:
        """Return where the index of a file is stored, see `points`."""
        return self.folder / file_name(entry.name + INDEX_SUFFIX)

    def where(self, entry: FileEntry) -> str:
        """Return the path, for messages."""
        return f"{self.name}/{entry.stored_name}"

    def open(self, name: str) -> Readable:
        """Return the bytes of a file, by its name at the server.

        Raises:
            PositionPurged: the archive does not have it, or no longer.
            SourceUnfit: it is encrypted with another key, or cannot be opened.
            CorruptEvent: its table is damaged.
            SourceUnavailable: it has just been begun.
        """
        for last in (False, True):
            entry = self._entry(name)
            try:
                return self._opened(entry)
            except FileNotFoundError as error:
                if last and entry.state is State.OPEN and not entry.size:
                    raise SourceUnavailable(f"{self.where(entry)} has just been begun.") from error
                if last:
                    raise CorruptEvent(
                        f"{self.where(entry)} is missing, and the manifest names it.",
                        hint="Run `canal-group archive verify`, which says what is missing.",
                        file=self.where(entry),
                    ) from error
                self.refresh()  # it has another form now
            except OSError as error:
                raise SourceUnfit(
                    f"{self.where(entry)} cannot be opened: {error.strerror}.", file=self.where(entry)
                ) from error
        raise AssertionError

    def points(self, entry: FileEntry) -> Sequence[Point]:
        """Return the index of a file, of the open one up to `entry.size`; without one it is made.

        Raises:
            As `open`; CorruptEvent: the file is damaged.
        """
        try:
            data = read_whole(self._disk, self.index_path(entry))
        except OSError:
            data = b""
        points = parse_points(data, entry.size) if data else None
        return self.scan(entry).points if points is None else points

    def scan_from(self, entry: FileEntry, point: Point | None) -> tuple[FileScan, Readable]:
        """Return a scan that goes on at a point of a file, and the file's bytes, which the caller closes.

        Args:
            entry: the file.
            point: of its index; None: at its first event after the description.

        Raises:
            As `open`; CorruptEvent: its description is damaged.
        """
        source = self.open(entry.name)
        scan = FileScan(entry.name, self.name, description=entry.description)
        try:
            head = source.read_at(len(MAGIC), _READ_BYTES)
            scan.feed(head[: int.from_bytes(head[9:13], "little")])
        except BaseException:
            source.close()
            raise
        scan.go_to(point or Point(scan.offset, 0, entry.gtids_before))
        return scan, source

    def scan(self, entry: FileEntry) -> FileScan:
        """Check a file from its beginning to its end, and return the scan.

        Raises:
            As `open`; CorruptEvent: an event, or a frame, is damaged.
        """
        gtids = parse_gtid_set(entry.gtids_before)
        scan = FileScan(entry.name, self.name, gtids, description=entry.description)
        source = self.open(entry.name)
        try:
            scan_to_end(scan, source)
        finally:
            source.close()
        return scan

    def _entry(self, name: str) -> FileEntry:
        entry = self.manifest.entry(name)
        if entry is not None and entry.state is not State.PRUNED:
            return entry
        there = [each.name for each in self.manifest.files if each.state is not State.PRUNED]
        why = "no longer has" if entry else "does not have"
        raise PositionPurged(
            f"The archive of {self.name} {why} {name}.",
            hint=f"It has {there[0]} to {there[-1]}." if there else "It has no files.",
            file=name,
            oldest_file=there[0] if there else "",
        )

    def _opened(self, entry: FileEntry) -> Readable:
        if entry.remote:
            if self._store is None:
                raise SourceUnfit(
                    f"{self.where(entry)} was moved to an object store.",
                    hint="Say which one: `archive.store` of an instance, `--store` of a command.",
                )
            stored: Readable = self._store.open(entry.remote)
        else:
            stored = self._disk.open(self.path(entry))
        try:
            source = form_of(stored, entry, self._keys, self.where(entry))
            if entry.state is State.OPEN or isinstance(source, FramesFile):
                return source
            return KnownBytes(source, self.where(entry), entry.size, entry.damaged)
        except CanalGroupError:
            stored.close()
            raise


def form_of(stored: Readable, entry: FileEntry, keys: Keys, where: str) -> Readable:
    """Return the binlog's bytes of a stored file.

    Raises:
        SourceUnfit: it is encrypted with another key.
        CorruptEvent: its table is damaged.
    """
    bound = f"{entry.name}/{entry.created_s}"
    key = keys.by_id(entry.key, where) if entry.key else None
    match entry.form:
        case Form.PLAIN:
            return stored
        case Form.BLOCKS:
            assert key is not None, "blocks are encrypted"
            return BlocksFile(stored, key, bound)  # type: ignore[arg-type] # it is not moved while it is open
        case _:
            return FramesFile(stored, FrameCodec(bound, key), where, entry.size)


def scan_to_end(scan: FileScan, source: Readable) -> None:
    """Feed a file to a scan, up to its last whole event.

    Raises:
        CorruptEvent, UnsupportedEvent: see `FileScan.feed`, and `Readable.read_at`.
    """
    magic = source.read_at(0, len(MAGIC))
    if magic != MAGIC:
        raise CorruptEvent(
            f"{scan.file} is not a binlog: its first bytes are {magic.hex() or 'missing'}.",
            hint="Copy it from its server again.",
            file=scan.file,
            offset=0,
        )
    scan_rest(scan, source)


def scan_rest(scan: FileScan, source: Readable) -> None:
    """Feed a file to a scan from where that is; see `scan_to_end`."""
    at, held = scan.offset, bytearray()
    # An event that is in no file ends it as a cut does; what follows is not gathered without a bound.
    while len(held) <= EVENT_BYTES_MAX and (data := source.read_at(at, max(_READ_BYTES, len(held)))):
        at += len(data)
        # A frame has a MiB, and an event up to a GiB: what is held is not copied for each frame.
        held += data
        del held[: scan.feed(held)]
