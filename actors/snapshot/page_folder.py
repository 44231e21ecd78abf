"""Page folders: the pages that entered a shard's stream, until every cursor has passed them.

A page cannot be read again: its rows have changed. So it is on the disk before its header is reported, and a
stream that is read again from an earlier position has the same pages at the same positions.

Pages that are written together are one file, all of which is there or none: Arrow IPC streams, named by the
positions of the first page and of the last: binlog file, offset, and the ordinal of its first row. They are
as the shard stores them, after the rules: what they leave out is in no file, and pages of other rules are
removed. A file is encrypted if the archive is, with the id of the key before it.

Whoever opens a folder owns it from then on: a process that was cut off, and does not know yet that another
one has taken its place, adds nothing any more.
"""

from __future__ import annotations

import json
import secrets
import threading
from bisect import insort
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from canal_group.actors.process.durable import make_folder, replace_file
from canal_group.actors.snapshot.page_chunk import PageAt, mark_chunk
from canal_group.binlog.archive.forms.key import NO_KEYS, Keys
from canal_group.merge.errors import DataError, ShardUnavailable, UsageError
from canal_group.merge.file_name import file_name
from canal_group.merge.printable import escaped
from canal_group.merge.values.chunk import Chunk, TableName, TableRows
from canal_group.merge.values.header import HEADER
from canal_group.merge.values.marks.snapshot_mark import SnapshotEnd
from canal_group.merge.values.position import Position, file_order

_SUFFIX: Final = ".page"
#: has the rules by which its pages were made, and the token of whoever opened the folder last
_OWNER: Final = "owner"
#: keys of the metadata of a file's schema
_HEADER, _FACTS = b"header", b"facts"
#: how an Arrow IPC stream begins, and no id of a key
_CLEAR: Final = b"\xff\xff\xff\xff"
_KEY_ID_BYTES: Final = 16
#: base and number of the binlog file, offset, ordinal of the first row
_Order: TypeAlias = tuple[str, int, int, int]


class KeptPage(NamedTuple):
    """A page on the disk."""

    #: see `page_chunk` and `mark_chunk`; with the cursor that counts from it on
    page: Chunk
    #: the cursors of the stream's positions between the previous page and this page
    follows: tuple[str, ...]


class _PageFile(NamedTuple):
    """A file of pages, in the order of a stream."""

    #: position of the file's first page, and of its last page
    first: _Order
    last: _Order
    path: Path


class PageFolder:
    """The pages of one shard and server. One thread at a time adds and reads; another one may remove.

    Args:
        folder: is made if it is not there.
        keys: encrypt the pages.
        rules: name those by which the pages are made; without spaces.

    Raises:
        OSError: it cannot be made or read.
        DataError: it has a file that is not named as pages are.
    """

    def __init__(self, folder: Path, keys: Keys = NO_KEYS, rules: str = "") -> None:
        make_folder(folder)
        self._folder, self._keys = folder, keys
        self._token = f"{rules} {secrets.token_hex(8)}"
        self._lock = threading.Lock()
        self._files = sorted(map(_page_file, folder.glob(f"*{_SUFFIX}")))
        owner = folder / _OWNER
        if self._files and not (owner.exists() and owner.read_text().startswith(f"{rules} ")):
            # They may have in clear what a rule masks by now. The last one first: a crash leaves no gap.
            while self._files:
                self._files.pop().path.unlink(missing_ok=True)
        replace_file(owner, self._token)

    @property
    def is_own(self) -> bool:
        """Whether no other one has opened the folder since; raises OSError if that cannot be read."""
        return (self._folder / _OWNER).read_text() == self._token

    def add(self, pages: Sequence[KeptPage]) -> None:
        """Write pages durably: all of them, or none.

        Args:
            pages: at least one, in order, of one binlog file.

        Raises:
            OSError: they could not be written.
            ShardUnavailable: another one has opened the folder since.
        """
        if not self.is_own:
            raise ShardUnavailable(f"The pages in {self._folder} are another lane's by now.")
        sink = pa.BufferOutputStream()
        for each in pages:
            _write(each, sink)
        (file, *first), (_, *last) = (_where(each.page) for each in (pages[0], pages[-1]))
        numbers = (f"{number:020}" for number in (*first, *last))
        path = self._folder / file_name("-".join([file, *numbers]) + _SUFFIX)
        replace_file(path, self._sealed(sink.getvalue().to_pybytes(), path.name))
        with self._lock:
            insort(self._files, _page_file(path))

    def after(self, position: Position) -> Iterator[Chunk]:
        """Yield the pages after a position, in order.

        Raises:
            DataError: a file cannot be read.
        """
        return (each.page for each in self._after(position))

    def follows(self, position: Position) -> tuple[str, ...]:
        """Return the cursors that the first page after a position follows; none: there is no page.

        Raises:
            DataError: its file cannot be read.
        """
        first = next(self._after(position), None)
        return () if first is None else first.follows

    def _after(self, position: Position) -> Iterator[KeptPage]:
        passed = _passed(position)
        with self._lock:
            files = [each for each in self._files if each.last >= passed]
        pages = chain.from_iterable(self._read(each.path) for each in files)
        return (each for each in pages if _order(*_where(each.page)) >= passed)

    def remove_before(self, position: Position | None) -> None:
        """Remove the files whose pages every cursor has passed; None: all.

        Nothing is removed if another one has opened the folder since: perhaps at an earlier position.

        Raises:
            OSError: a file could not be removed.
        """
        with self._lock:
            count = len(self._files)
            if position is not None:
                passed = _passed(position)
                count = next((index for index, each in enumerate(self._files) if each.last >= passed), count)
            gone, self._files = self._files[:count], self._files[count:]
        for each in gone if gone and self.is_own else ():
            # Nothing is lost if a crash leaves it: it is before every cursor.
            each.path.unlink(missing_ok=True)

    def _sealed(self, content: bytes, name: str) -> bytes:
        key = self._keys.first
        return content if key is None else key.id.encode() + key.seal(content, name)

    def _opened(self, content: bytes, path: Path) -> bytes:
        if content.startswith(_CLEAR):
            return content
        key = self._keys.by_id(content[:_KEY_ID_BYTES].decode("ascii"), str(path))
        opened = key.open(content[_KEY_ID_BYTES:], path.name)
        if opened is None:
            raise ValueError("it is not what was encrypted")
        return opened

    def _read(self, path: Path) -> list[KeptPage]:
        found = list[KeptPage]()
        try:
            content = self._opened(path.read_bytes(), path)
            source = pa.BufferReader(content)
            while source.tell() < len(content):
                found.append(_read_page(source))
        except (OSError, KeyError, TypeError, ValueError, pa.ArrowInvalid, StopIteration) as error:
            raise DataError(
                f"The pages of a snapshot in {path} cannot be read ({type(error).__name__}).",
                hint="Restore the file, or begin the snapshot again.",
            ) from error
        return found


def _write(kept: KeptPage, sink: Any) -> None:
    """Write a page as an Arrow IPC stream of its own."""
    page = kept.page
    table = page.tables[0] if page.tables else None
    facts = {
        "names": page.names,
        "snapshot": page.snapshot,
        "follows": kept.follows,
        "name": None if table is None else table.name,
        "source": None if table is None else table.source,
        "mark": None if page.statements is None else page.statements.column("sql")[0].as_py(),
    }
    metadata = {_HEADER: page.headers[:1].tobytes(), _FACTS: json.dumps(facts).encode()}
    rows = pa.RecordBatch.from_pylist([], pa.schema([])) if table is None else table.rows
    rows = rows.replace_schema_metadata({**(rows.schema.metadata or {}), **metadata})
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)


def _read_page(source: Any) -> KeptPage:
    """Read the next page; raises what Arrow raises, KeyError, TypeError or ValueError."""
    with pa.ipc.open_stream(source) as stream:
        (rows,) = stream
    metadata = dict(rows.schema.metadata)
    header, facts = metadata.pop(_HEADER), json.loads(metadata.pop(_FACTS))
    rows = rows.replace_schema_metadata(metadata)
    headers = np.frombuffer(bytearray(header), HEADER)
    names, text, follows = tuple(facts["names"]), facts["snapshot"], tuple(facts["follows"])
    if text is not None:
        SnapshotEnd.of_text(text)
    if facts["mark"] is not None:
        at = PageAt(Position(names[0], 0, page_rows=int(headers["row_begin"][0])), 0)
        mark = mark_chunk(facts["mark"], at)
        found = Chunk(headers, names, (), mark.statements, mark.statement_sources, snapshot=text)
        return KeptPage(found, follows)
    tables: tuple[TableRows, ...] = ()
    if facts["name"] is not None:
        tables = (TableRows(TableName(*facts["name"]), rows, TableName(*facts["source"])),)
    return KeptPage(Chunk(headers, names, tables, snapshot=text), follows)


def _where(page: Chunk) -> tuple[str, int, int]:
    """Return binlog file, offset and the ordinal of the first row of a page."""
    header = page.headers[0]
    return page.names[header["file"]], int(header["begin_offset"]), int(header["row_begin"])


def _order(file: str, offset: int, row_begin: int) -> _Order:
    return (*file_order(file), offset, row_begin)


def _page_file(path: Path) -> _PageFile:
    file, *texts = path.name.removesuffix(_SUFFIX).rsplit("-", 4)
    try:
        file_order(file)
        offset, row_begin, last_offset, last_row_begin = map(int, texts)
    except (UsageError, ValueError) as error:
        raise DataError(
            f"{escaped(str(path))} is not a file of a snapshot's pages.", hint="Move it out of the folder."
        ) from error
    return _PageFile(_order(file, offset, row_begin), _order(file, last_offset, last_row_begin), path)


def _passed(position: Position) -> _Order:
    """Return the order of the first page that may be after a position."""
    return _order(position.file, position.offset, position.page_rows)
