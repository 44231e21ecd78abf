"""Row search: the last changes of one row in the last part of a source's binlog.

The part is read like `check --decode` reads it: as a file of its own, with server id 0, so that no reader of
the source is disconnected. A change that rules on rows drop is found too, and said to be dropped. What no
consumer sees, such as history, is not found. Nothing of a row is returned but where its changes are.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from canal_group.actors.sink.consumer_view import ConsumerView
from canal_group.actors.sink.processing import Processing
from canal_group.binlog.columns.table_lookup import NoLookup, TableLookup
from canal_group.binlog.files.binlog_files import BinlogFiles
from canal_group.binlog.files.files_reader import FilesSource, listed
from canal_group.binlog.formats.binlog_file import BinlogFile
from canal_group.binlog.grammar.tables import Select
from canal_group.binlog.schema.ancestry import Ancestry
from canal_group.binlog.second_opinion.tail import tail_of_files, tail_of_server
from canal_group.binlog.server.server_lookup import ServerLookup
from canal_group.binlog.server.source import SourceAddress, connect
from canal_group.merge.errors import DataError, UsageError
from canal_group.merge.rows.row_key import RowKey
from canal_group.merge.values.chunk import PRIMARY_KEY, Chunk, Op, TableName, TableRows
from canal_group.merge.values.header import gtid_text

#: most changes that an answer holds; older ones are left out
CHANGES_MAX: Final = 10


def changes_of(
    source: SourceAddress | FilesSource,
    select: Select,
    view: ConsumerView,
    key: RowKey,
    bytes_max: int,
    processing: Processing | None = None,
    ancestry: Callable[[TableName], Ancestry | None] = lambda _name: None,
) -> dict[str, Any]:
    """Return the last changes of a row, as a JSON object.

    `changes` has at most `CHANGES_MAX`, the oldest first: `gtid` (empty: none), `file`, `offset` of its
    transaction, `commit_us`, `op`, and `kept`: whether the rules of tables keep it. `files` are those that
    were searched, `unknown` is how many changes of the table could not be compared, because its primary key
    at that offset is not known.

    Args:
        source: a server or files.
        select: the name of a source's table for consumers; None leaves it out.
        view: what consumers see of tables.
        key: the row.
        bytes_max: size of the part that is searched; so much room is needed for temporary files.
        processing: the rules of tables; None: none.
        ancestry: returns where the values of a table have come from; None: nothing is known.

    Raises:
        UsageError: the key does not fit the table's, or the rules keep a column of it from consumers: whether
            a row has a value would tell it.
        SourceUnavailable, SourceUnfit: the source does not answer, or refuses.
        DataError: its binlog cannot be read.
    """
    processing = processing or Processing()
    changes: deque[dict[str, Any]] = deque(maxlen=CHANGES_MAX)
    unknown = 0
    with tempfile.TemporaryDirectory() as folder, _lookup(source) as lookup:
        files = _tail(source, Path(folder), bytes_max)
        reader = BinlogFiles(
            files,
            lambda schema, table: key.table if select(schema, table) == key.table else None,
            lookup=lookup,
            verbatim=True,
            original_times=source.commit_times.original,
        )
        for chunk in map(view.apply, reader):
            for table in chunk.tables:
                _check_shown(processing, table, key, ancestry(table.source or table.name))
                matches = key.changes(table.rows)
                if matches is None:
                    unknown += table.rows.num_rows
                elif matches.any():
                    kept_rows = _kept(processing, chunk)
                    changes.extend(
                        _change(chunk, table, row, kept_rows) for row in matches.nonzero()[0].tolist()
                    )
    return {"changes": list(changes), "files": [file.name for file in files], "unknown": unknown}


def _check_shown(processing: Processing, table: TableRows, key: RowKey, ancestry: Ancestry | None) -> None:
    """Return if the values of a table's primary key leave the shard as they are."""
    lineage = table.lineage
    if ancestry is not None:
        lineage = lineage.with_more(ancestry.reads, tuple(TableName(*name) for name in ancestry.names))
    names = [field.name for field in table.rows.schema.field("after").type]
    kept_back = processing.hidden(table.source or table.name, names, lineage)
    of_key = set(kept_back).intersection(json.loads(table.rows.schema.metadata[PRIMARY_KEY]))
    if of_key:
        raise UsageError(
            f"A rule of the filter keeps {', '.join(sorted(of_key))} of the primary key of {key.table} from"
            " consumers, so no row is looked for by it.",
            hint="Trace a transaction by its GTID.",
        )


def _kept(processing: Processing, chunk: Chunk) -> set[tuple[int, int]]:
    """Return header and ordinal of the row changes that the rules keep; none where a rule does not fit."""
    try:
        tables = processing.apply(chunk).tables
    except DataError:
        return set()
    columns = ([each.rows.column(name).to_numpy() for name in ("_header", "_row")] for each in tables)
    return {row for each in columns for row in zip(*(part.tolist() for part in each), strict=True)}


def _change(chunk: Chunk, table: TableRows, row: int, kept_rows: set[tuple[int, int]]) -> dict[str, Any]:
    index, ordinal = (table.rows.column(name)[row].as_py() for name in ("_header", "_row"))
    header = chunk.headers[index]
    return {
        "gtid": gtid_text(chunk.names[int(header["gtid_source"])], int(header["gtid_number"])),
        "file": chunk.names[int(header["file"])],
        "offset": int(header["begin_offset"]),
        "commit_us": int(header["commit_us"]),
        "op": Op(table.rows.column("_op")[row].as_py()).name,
        "kept": (index, ordinal) in kept_rows,
    }


def _tail(source: SourceAddress | FilesSource, folder: Path, bytes_max: int) -> Sequence[BinlogFile]:
    if isinstance(source, FilesSource):
        return tail_of_files(listed(source.files, source.key_file), folder, bytes_max)
    return tail_of_server(source, folder, bytes_max)


@contextlib.contextmanager
def _lookup(source: SourceAddress | FilesSource) -> Iterator[TableLookup]:
    """Return a lookup of tables as they are now, for binlogs that do not describe them."""
    address = source.lookup if isinstance(source, FilesSource) else source
    if address is None:
        yield NoLookup()
        return
    with contextlib.closing(connect(address)) as connection:
        yield ServerLookup(address, connection)
