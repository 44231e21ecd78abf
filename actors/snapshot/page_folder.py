"""Page folders: the pages that entered a shard's stream, until every cursor has passed them.

A page cannot be read again: its rows have changed. So it is on the disk before its header is reported, and a
stream that is read again from an earlier position has the same pages at the same positions.

One file a page, an Arrow IPC stream, named by its position: binlog file, offset, and the ordinal of its first
row. It has the page as the shard stores it, after the rules: what they leave out is in no file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from canal_group.actors.process.durable import remove_file, replace_file
from canal_group.merge.errors import DataError
from canal_group.merge.values.chunk import Chunk, TableName, TableRows
from canal_group.merge.values.header import HEADER
from canal_group.merge.values.position import Position, file_order

_SUFFIX: Final = ".page"
#: keys of the metadata of a file's schema
_HEADER, _FACTS = b"header", b"facts"


class _PageFile(NamedTuple):
    """A file of a page, by its name."""

    path: Path
    file: str
    offset: int
    row_begin: int


class PageFolder:
    """The pages of one shard and server. One thread at a time uses it.

    Args:
        folder: is made if it is not there; nothing else writes into it.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder = folder

    def add(self, page: Chunk) -> None:
        """Write a page durably.

        Args:
            page: see `page_chunk`; with the cursor that counts from it on.

        Raises:
            OSError: it could not be written.
        """
        header = page.headers[0]
        file, offset, row_begin = page.names[header["file"]], header["begin_offset"], header["row_begin"]
        table = page.tables[0] if page.tables else None
        facts = {
            "names": page.names,
            "snapshot": page.snapshot,
            "name": None if table is None else table.name,
            "source": None if table is None else table.source,
        }
        metadata = {_HEADER: page.headers[:1].tobytes(), _FACTS: json.dumps(facts).encode()}
        rows = pa.RecordBatch.from_pylist([], pa.schema([])) if table is None else table.rows
        rows = rows.replace_schema_metadata({**(rows.schema.metadata or {}), **metadata})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as stream:
            stream.write_batch(rows)
        name = f"{file}-{int(offset):020}-{int(row_begin):020}{_SUFFIX}"
        replace_file(self._folder / name, sink.getvalue().to_pybytes())

    def after(self, position: Position) -> Iterator[Chunk]:
        """Yield the pages after a position, in order.

        Raises:
            DataError: a file cannot be read.
        """
        for each in self._files():
            if _order(each) >= _passed(position):
                yield _read(each.path)

    def remove_before(self, position: Position) -> None:
        """Remove the pages that every cursor has passed.

        Raises:
            OSError: a file could not be removed.
        """
        for each in self._files():
            if _order(each) < _passed(position):
                remove_file(each.path)

    def _files(self) -> list[_PageFile]:
        found = []
        for path in self._folder.glob(f"*{_SUFFIX}"):
            file, offset, row_begin = path.name.removesuffix(_SUFFIX).rsplit("-", 2)
            found.append(_PageFile(path, file, int(offset), int(row_begin)))
        return sorted(found, key=_order)


def _order(page: _PageFile) -> tuple[Any, ...]:
    return (*file_order(page.file), page.offset, page.row_begin)


def _passed(position: Position) -> tuple[Any, ...]:
    """Return the order of the first page that may be after a position."""
    return (*file_order(position.file), position.offset, position.page_rows)


def _read(path: Path) -> Chunk:
    try:
        with pa.OSFile(str(path), "rb") as source, pa.ipc.open_stream(source) as stream:
            rows = stream.read_next_batch()
        metadata = dict(rows.schema.metadata)
        header, facts = metadata.pop(_HEADER), json.loads(metadata.pop(_FACTS))
        rows = rows.replace_schema_metadata(metadata)
        headers = np.frombuffer(bytearray(header), HEADER)
    except (OSError, KeyError, TypeError, ValueError, pa.ArrowInvalid, StopIteration) as error:
        raise DataError(
            f"The page of a snapshot in {path} cannot be read ({type(error).__name__}).",
            hint="Restore the file, or begin the snapshot again.",
        ) from error
    tables: tuple[TableRows, ...] = ()
    if facts["name"] is not None:
        tables = (TableRows(TableName(*facts["name"]), rows, TableName(*facts["source"])),)
    return Chunk(headers, tuple(facts["names"]), tables, snapshot=facts["snapshot"])
