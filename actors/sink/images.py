"""Images: the rows before and after a change as columns, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from canal_group.merge.values.chunk import ABSENT, Op, absent_type
from canal_group.merge.values.rows.absent import Absent, absent_in
from canal_group.merge.values.rows.moments import filtered


@dataclass(frozen=True, slots=True)
class Images:
    """The images `before` or `after` of n row changes."""

    #: (n,) arrays, null where there is no image
    columns: list[Any]
    #: (n,) whether there is an image
    present: NDArray[np.bool_]
    absent: Absent

    @property
    def missing(self) -> bool:
        """Whether every row lacks the image, and a row exists."""
        return len(self.present) > 0 and not self.present.any()

    @classmethod
    def of(cls, rows: pa.RecordBatch, side: str) -> Images:
        """Return one side of a chunk's rows."""
        image = rows.column(side)
        present = image.is_valid().to_numpy(zero_copy_only=False)
        return cls(image.flatten(), present, absent_in(rows, side))

    def without(self, hidden: NDArray[np.bool_]) -> Images:
        """Return the images without some of them, of which not even hidden bytes remain."""
        if not hidden.any():
            return self
        rows = pa.array(np.arange(len(hidden)), mask=hidden)
        absent = None if self.absent is None else self.absent & ~hidden[:, None]
        return Images([each.take(rows) for each in self.columns], self.present & ~hidden, absent)

    def only(self, columns: Sequence[int]) -> Images:
        """Return some of the columns."""
        absent = None if self.absent is None else self.absent[:, columns]
        absent = None if absent is None or not absent.any() else absent
        return Images([self.columns[column] for column in columns], self.present, absent)

    def struct(self, fields: Sequence[Any]) -> Any:
        """Return the images as a struct column."""
        return pa.StructArray.from_arrays(self.columns, fields=list(fields), mask=pa.array(~self.present))

    def bits(self) -> Any:
        """Return the column of absent column indexes."""
        absent, count = self.absent, len(self.columns)
        if absent is None:
            absent = np.zeros((len(self.present), count), np.bool_)
        packed = np.packbits(absent, axis=1, bitorder="little")
        return pa.Array.from_buffers(absent_type(count), len(absent), [None, pa.py_buffer(packed.tobytes())])


def within(
    rows: pa.RecordBatch,
    op: NDArray[np.uint8],
    images: Mapping[str, Images],
    inside: Mapping[str, NDArray[np.bool_]],
) -> tuple[Any, NDArray[np.uint8], dict[str, Images]]:
    """Return the rows of which an image is inside a part of the table, as changes of that part.

    An update whose row enters the part becomes an insert, one whose row leaves it a delete.

    Args:
        rows: see `canal_group.merge.values.chunk`.
        op: their operations.
        images: of the rows, by `before` and `after`.
        inside: for each of them, which images are inside.

    Returns:
        The rows that remain, what they have become, and their images that are inside.
    """
    keep = inside["before"] | inside["after"]
    if not keep.all():
        rows, op = filtered(rows, keep), op[keep]
        images = {side: Images.of(rows, side) for side in ABSENT}
        inside = {side: fits[keep] for side, fits in inside.items()}
    updates = op == Op.UPDATE
    op = np.where(updates & ~inside["before"], np.uint8(Op.INSERT), op)
    op = np.where(updates & ~inside["after"], np.uint8(Op.DELETE), op)
    return rows, op, {side: image.without(image.present & ~inside[side]) for side, image in images.items()}


def put_together(rows: pa.RecordBatch, op: Any, schema: pa.Schema, before: Images, after: Images) -> Any:
    """Return the rows with new operations and images; `schema` is that of rows in which nothing is absent."""
    fields = list(schema.field("after").type)
    arrays = [rows.column(0), rows.column(1), op, before.struct(fields), after.struct(fields)]
    if before.absent is not None or after.absent is not None:
        kind = absent_type(len(fields))
        for name, side in zip(ABSENT.values(), (before, after), strict=True):
            schema = schema.append(pa.field(name, kind, nullable=False))
            arrays.append(side.bits())
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def changed(before: Images, after: Images) -> NDArray[np.bool_]:
    """Return whether the two images of each row differ in a value, or in what is absent."""
    differs = np.zeros(len(before.present), np.bool_)
    for old, new in zip(before.columns, after.columns, strict=True):
        one, two = _comparable(old), _comparable(new)
        same = pc.fill_null(pc.equal(one, two), False)
        both = pc.and_(pc.is_null(one), pc.is_null(two))
        differs |= ~pc.or_(same, both).to_numpy(zero_copy_only=False)
    for one_absent, other in ((before.absent, after.absent), (after.absent, before.absent)):
        if one_absent is not None:
            differs |= (one_absent if other is None else one_absent & ~other).any(axis=1)
    return differs


def _comparable(array: Any) -> Any:
    if pa.types.is_dictionary(array.type):
        return array.dictionary_decode()
    if pa.types.is_list(array.type):  # of numbers: their bytes
        values = np.ascontiguousarray(np.asarray(array.values), array.type.value_type.to_pandas_dtype())
        offsets = np.asarray(array.offsets).astype(np.int64) * values.itemsize
        valid = pa.py_buffer(np.packbits(array.is_valid().to_numpy(zero_copy_only=False), bitorder="little"))
        buffers = [valid, pa.py_buffer(offsets), pa.py_buffer(values.tobytes())]
        return pa.Array.from_buffers(pa.large_binary(), len(array), buffers)
    return array
