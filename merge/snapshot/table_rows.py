"""Rows of a table: what those of the stream touched, and what is left of those of a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from canal_group.merge.errors import DataError
from canal_group.merge.snapshot.key import Key
from canal_group.merge.snapshot.table_key import TableKey
from canal_group.merge.snapshot.touched import Fate, RowKey, Touched
from canal_group.merge.values.chunk import Op
from canal_group.merge.values.rows.absent import absent_in
from canal_group.merge.values.rows.moments import has_odd, is_moment, kept_of


class Image(NamedTuple):
    """An image after an UPDATE, which lacks columns."""

    #: the images of a record batch
    after: Any
    row: int
    #: indexes of the columns in the image
    columns: tuple[int, ...]


class PlacedRows(NamedTuple):
    """What is left of a page."""

    #: (n,) rows, each column an array
    rows: Any
    #: rows to read again
    again: tuple[Key, ...]


def touched_by(batches: Iterable[Any], key: TableKey, computed: frozenset[str]) -> Touched[Image]:
    """Return the rows that row changes touched.

    Args:
        batches: record batches of the table, in the stream's order, see `canal_group.merge.values.chunk`.
        key: of the table.
        computed: columns whose absence from an image does not say that they were not changed.

    Raises:
        DataError: an image lacks a column of the key.
    """
    touched: Touched[Image] = Touched()
    for rows in batches:
        _touch(touched, rows, key, computed)
    return touched


def _touch(touched: Touched[Image], rows: Any, key: TableKey, computed: frozenset[str]) -> None:
    names = [field.name for field in rows.schema.field("after").type]
    before, after = (_keys(rows, side, names, key) for side in ("before", "after"))
    lacks = absent_in(rows, "after")
    ops = np.asarray(rows.column("_op"))
    if lacks is None:
        touched.settle(_where(before, ops != Op.INSERT))
        touched.settle(_where(after, ops != Op.DELETE))
        return
    touched.incomplete.update(_where(after, (ops == Op.INSERT) & lacks.any(axis=1)))
    partial = (ops == Op.UPDATE) & lacks.any(axis=1)
    touched.settle(_where(before, (ops != Op.INSERT) & ~partial))
    touched.settle(_where(after, (ops != Op.DELETE) & ~partial))
    vague = np.array([name in computed for name in names])
    images = rows.column("after")
    for index in np.flatnonzero(partial).tolist():
        sure = not (lacks[index] & vague).any()
        image = Image(images, index, tuple(np.flatnonzero(~lacks[index]).tolist())) if sure else None
        touched.update(before[index], after[index], image)


def _keys(rows: Any, side: str, names: list[str], key: TableKey) -> list[RowKey]:
    """Return the key of each image; the key of a missing image means nothing."""
    lacks, at = absent_in(rows, side), [names.index(name) for name in key.columns]
    if lacks is not None and lacks[:, at].any():
        raise DataError(
            "An image of a row lacks a column of the key by which the table's snapshot is read.",
            hint="SET GLOBAL binlog_row_image = FULL; until the snapshot is complete.",
        )
    columns = rows.column(side).flatten()
    return key.of([columns[index] for index in at], rows.num_rows)


def _where(keys: list[RowKey], chosen: NDArray[np.bool_]) -> Iterable[RowKey]:
    if chosen.all():
        return keys
    return (keys[index] for index in np.flatnonzero(chosen).tolist())


def placed(rows: Any, key: TableKey, touched: Touched[Image]) -> PlacedRows:
    """Return a page's rows as they are at the boundary at which the page enters the stream.

    Args:
        rows: (n,) RecordBatch of the table's columns, with the types of its images.
        key: of the table.
        touched: what the transactions after the page's low mark touched.
    """
    touched_keys = touched.keys()
    if not touched_keys or not rows.num_rows:
        return PlacedRows(rows, ())
    index_of = key.among([rows.column(name) for name in key.columns], touched_keys)
    if not index_of:
        return PlacedRows(rows, ())
    fates = {each: touched.fate(each) for each in index_of}
    kept = np.ones(rows.num_rows, dtype=np.bool_)
    kept[list(index_of.values())] = False
    overlaid = [each for each, fate in fates.items() if fate is Fate.OVERLAID]
    again = [each for each, fate in fates.items() if fate is Fate.AGAIN]
    result = _kept(rows, kept)
    if overlaid and not _can_lay(rows, touched, overlaid):
        again, overlaid = again + overlaid, []
    if overlaid:
        images = [touched.images[each] for each in overlaid]
        laid = _overlaid(rows, [index_of[each] for each in overlaid], images)
        result = pa.Table.from_batches([result, laid]).unify_dictionaries().combine_chunks().to_batches()[0]
    return PlacedRows(result, tuple(map(key.for_server, again)))


def _kept(rows: Any, kept: NDArray[np.bool_]) -> Any:
    return pa.RecordBatch.from_arrays([kept_of(column, kept) for column in rows.columns], schema=rows.schema)


def _can_lay(rows: Any, touched: Touched[Image], keys: Sequence[RowKey]) -> bool:
    """Return whether images have the columns of the page, and no date that Arrow's functions would lose."""
    images = {id(image.after): image.after for each in keys for image in touched.images[each]}
    same = all(list(after.type) == list(rows.schema) for after in images.values())
    columns = [*rows.columns, *(column for after in images.values() for column in after.flatten())]
    return same and not any(is_moment(column.type) and has_odd(column) for column in columns)


def _overlaid(rows: Any, indexes: list[int], images: list[list[Image]]) -> Any:
    """Return rows with their images laid over them, in order."""
    sources, begins, size = [rows.columns], dict[int, int](), rows.num_rows
    for image in chain.from_iterable(images):
        if id(image.after) not in begins:
            begins[id(image.after)] = size
            sources.append(image.after.flatten())
            size += len(image.after)
    columns = []
    for column, field in enumerate(rows.schema):
        # Where each row's value comes from: its own, or that of the last image that has the column.
        at = list[int]()
        for index, laid in zip(indexes, images, strict=True):
            at.append(index)
            for image in laid:
                if column in image.columns:
                    at[-1] = begins[id(image.after)] + image.row
        pieces = pa.chunked_array([source[column] for source in sources], field.type)
        columns.append(pieces.unify_dictionaries().take(pa.array(at, pa.int64())).combine_chunks())
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)
