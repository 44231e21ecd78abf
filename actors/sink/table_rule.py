"""Table rules: which rows and columns of a table leave the shard, and what becomes of them.

The order, for each batch of a table's rows:

1. `where` decides for each image, on the source's values. An update whose row enters the filter becomes an
   insert, one whose row leaves it a delete: what a consumer has is what a query with that condition returns.
2. Columns are computed from the source's values.
3. Columns are dropped, masked and renamed.
4. A plug-in's function adds columns to what is left (`canal_group.actors.sink.process`).
5. With `drop_unchanged`, updates are dropped whose two images are the same after that.
6. `kinds` decides by what the change has become.

Nothing that is dropped stays in the buffers of the result.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from canal_group.actors.sink.images import Images, changed, put_together, within
from canal_group.actors.sink.mask import Mask
from canal_group.actors.sink.process import Process, ProcessFailed
from canal_group.merge.errors import DataError
from canal_group.merge.rows.expressions.expression import Expression, columns_of, fulfilled, value_of
from canal_group.merge.rows.pattern import PatternList
from canal_group.merge.rows.table_filter import split_patterns
from canal_group.merge.values.chunk import (
    ABSENT,
    MYSQL_TYPE,
    PRIMARY_KEY,
    Lineage,
    Op,
    TableName,
    mysql_type_of,
    rows_schema,
)

#: how Arrow refuses types and values
_REFUSED = (pa.ArrowException, ValueError, TypeError, NotImplementedError)
#: what is kept of a table without a rule, and by a rule that does not say it: account statements are not
KEPT = frozenset({"insert", "update", "delete", "ddl", "query"})
_OF_ROWS = frozenset(op.kind for op in Op)


@dataclass(frozen=True, slots=True)
class TableRule:
    """What happens to the tables that `match` names. Names of columns compare in lower case."""

    #: comma-separated regular expressions on `schema.table` as the source has it
    match: str
    #: columns that are kept; empty: all
    white_columns: frozenset[str] = frozenset()
    black_columns: frozenset[str] = frozenset()
    kinds: frozenset[str] = KEPT
    #: which rows are kept; None: all
    where: Expression | None = None
    #: old name -> new name
    renamed: Mapping[str, str] = field(default_factory=dict)
    masks: Mapping[str, Mask] = field(default_factory=dict)
    #: name -> value
    computed: Mapping[str, Expression] = field(default_factory=dict)
    #: None: no function
    process: Process | None = None
    drop_unchanged: bool = False
    _pattern: PatternList = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_pattern", PatternList(split_patterns(self.match)))

    @property
    def leaves_rows(self) -> bool:
        """Whether a table's rows stay as they are: the rule is about statements only."""
        changed = self.renamed or self.masks or self.computed or self.process or self.drop_unchanged
        left_out = self.white_columns or self.black_columns or self.where is not None
        return self.kinds >= _OF_ROWS and not changed and not left_out

    def matches(self, source: TableName) -> bool:
        """Return whether the rule is for a table of the source."""
        return bool(self._pattern.matches(str(source)))

    @property
    def protected(self) -> frozenset[str]:
        """The columns whose values must not leave the shard as they are."""
        return self.black_columns | frozenset(self.masks)

    def clear(self, columns: Iterable[str], lineage: Lineage) -> frozenset[str]:
        """Return the columns, in lower case, whose values leave the shard as they are."""
        return self._kept(columns, lineage) - set(self.masks)

    def schema(self, source: TableName, schema: pa.Schema, lineage: Lineage | None = None) -> pa.Schema:
        """Return the schema of the table's rows after the rule; see `canal_group.merge.values.chunk`.

        Raises:
            DataError: the rule names a column that the table does not have, or an expression or mask does not
                take the type of one.
        """
        empty = [pa.array([], each.type) for each in schema]
        return self.apply(source, pa.RecordBatch.from_arrays(empty, schema=schema), lineage).schema

    def apply(
        self,
        source: TableName,
        rows: pa.RecordBatch,
        lineage: Lineage | None = None,
        locate: Callable[[int], str] = "row {}".format,
    ) -> Any:
        """Return the part of a batch of the table's rows that is kept.

        Args:
            source: the table's name in the source.
            rows: see `canal_group.merge.values.chunk`.
            lineage: where the values come from; None: nothing is known.
            locate: returns where a row is, by its index, for errors.

        Raises:
            DataError: see `schema`; also if a condition reads a column that an image does not say, a value
                does not fit, or the function does what it may not.
            ConfigError: the function is not installed on this machine.
        """
        columns = list(rows.schema.field("after").type)
        names = self._kept([each.name for each in columns], lineage or Lineage())
        try:
            self._check_names(source, [each.name for each in columns], names, lineage or Lineage())
            return self._applied(source, rows, columns, names)
        except ProcessFailed as failed:
            assert self.process is not None, "no other part fails so"
            where = f", in the transactions from {locate(0)} on" if rows.num_rows else ""
            plug_in = f"Plug-in {self.process.name!r} of the filter's rule {self.match!r}"
            raise DataError(
                f"{plug_in} {failed}, on {source}{where}.",
                hint="Correct the plug-in or its settings, and start the server again.",
                table=str(source),
            ) from failed
        except _REFUSED as error:
            # Arrow's sentence may show a value, which must not leave the shard; one on no rows cannot.
            why = str(error) if not rows.num_rows else ""
        if rows.num_rows:
            self.schema(source, rows.schema, lineage)
            first = locate(self._first_refused(source, rows, columns, names))
            why = f"a value does not fit, in the transaction at {first}"
        raise DataError(
            f"The filter's rule {self.match!r} cannot be applied to {source}: {why}.",
            hint="Correct the rule's expressions and masks in filter.tables.",
            table=str(source),
        )

    def _first_refused(
        self, source: TableName, rows: pa.RecordBatch, columns: list[Any], names: frozenset[str]
    ) -> int:
        """Return the index of the first row that cannot be read."""
        begin, end = 0, rows.num_rows
        while end - begin > 1:
            middle = (begin + end) // 2
            try:
                self._applied(source, rows.slice(begin, middle - begin), columns, names)
                begin = middle
            except _REFUSED:
                end = middle
        return begin

    def _applied(
        self, source: TableName, rows: pa.RecordBatch, columns: list[Any], names: frozenset[str]
    ) -> Any:
        types = {each.name.lower(): mysql_type_of(each) for each in columns}
        rows, op, images = self._chosen(source, rows, types)
        made = {side: self._made(source, image, columns, types, names) for side, image in images.items()}
        fields, before = made["before"]
        after = made["after"][1]
        if self.process is not None:
            before, after = (self.process.extended(str(source), fields, each) for each in (before, after))
            fields = [*fields, *self.process.added]
        keep = np.ones(len(rows), np.bool_)
        if self.drop_unchanged:
            keep &= (op != Op.UPDATE) | changed(before, after)
        for each in Op:
            if each.kind not in self.kinds:
                keep &= op != each
        schema = rows_schema(fields, self._primary_key(rows.schema, names))
        result = put_together(rows, pa.array(op, pa.uint8()), schema, before, after)
        return result if keep.all() else result.filter(pa.array(keep))

    def _chosen(
        self, source: TableName, rows: pa.RecordBatch, types: Mapping[str, str]
    ) -> tuple[Any, NDArray[np.uint8], dict[str, Images]]:
        """Return the rows that `where` keeps, their operations after that, and their images by side."""
        images, op = {side: Images.of(rows, side) for side in ABSENT}, rows.column("_op").to_numpy()
        if self.where is None:
            return rows, op, images
        inside = {side: self._inside(source, image, types) for side, image in images.items()}
        return within(rows, op, images, inside)

    def _inside(self, source: TableName, image: Images, types: Mapping[str, str]) -> NDArray[np.bool_]:
        assert self.where is not None
        if image.missing:
            return image.present
        self._check_known(source, self.where, image, types)
        columns = dict(zip(types, image.columns, strict=True))
        matches = fulfilled(self.where, columns, len(image.present), types)
        return np.asarray(matches.to_numpy(zero_copy_only=False)) & image.present

    def _made(
        self,
        source: TableName,
        image: Images,
        columns: list[Any],
        types: Mapping[str, str],
        kept_columns: frozenset[str],
    ) -> tuple[list[Any], Images]:
        """Return the fields of the result, and an image with them."""
        fields, arrays, indexes, hidden = [], [], [], ~image.present
        for index, (column, name) in enumerate(zip(columns, types, strict=True)):
            if name not in kept_columns:
                continue
            mask, values = self.masks.get(name), image.columns[index]
            result = column if mask is None else mask.field(column)
            if image.missing:
                values = pa.nulls(len(hidden), result.type)
            elif mask is not None:
                unknown = hidden if image.absent is None else hidden | image.absent[:, index]
                values = _nulled(mask.apply(values, types[name]), unknown)
            fields.append(result.with_name(self.renamed.get(name, column.name)))
            arrays.append(values)
            indexes.append(index)
        absent = None if image.absent is None else image.absent[:, indexes]
        values_by_name = dict(zip(types, image.columns, strict=True))
        for added, expression in self.computed.items():
            self._check_known(source, expression, image, types)
            values = value_of(expression, values_by_name, len(image.present), types)
            fields.append(pa.field(added, values.type, metadata={MYSQL_TYPE: b"computed"}))
            arrays.append(_nulled(values, hidden))
            absent = None if absent is None else np.pad(absent, ((0, 0), (0, 1)))
        return fields, Images(arrays, image.present, absent)

    def _kept(self, columns: Iterable[str], lineage: Lineage) -> frozenset[str]:
        """Return the columns that are kept, in lower case.

        One whose values come from a masked or dropped column is dropped, unless it has a mask of its own.
        """
        names = self.white_columns or {name.lower() for name in columns}
        left_out = lineage.reading(self.protected) - set(self.masks)
        return frozenset(names) - self.black_columns - left_out

    def _primary_key(self, schema: pa.Schema, names: frozenset[str]) -> bytes:
        """Return the primary key's new names; none if it is not a key any more."""
        key = [name.lower() for name in json.loads(schema.metadata[PRIMARY_KEY])]
        whole = all(name in names and (name not in self.masks or self.masks[name].unique) for name in key)
        original = json.loads(schema.metadata[PRIMARY_KEY])
        return json.dumps(
            [self.renamed.get(name.lower(), name) for name in original] if whole else []
        ).encode()

    def _check_known(
        self, source: TableName, expression: Expression, image: Images, names: Iterable[str]
    ) -> None:
        if image.absent is None:
            return
        for name in columns_of(expression):
            if (image.absent[:, list(names).index(name.lower())] & image.present).any():
                raise DataError(
                    f"The filter's rule {self.match!r} reads column {name} of {source}, "
                    "which a row image lacks.",
                    hint="SET GLOBAL binlog_row_image = FULL; and start after what is logged already.",
                    table=str(source),
                    column=name,
                )

    def _check_names(
        self, source: TableName, columns: list[str], names: frozenset[str], lineage: Lineage
    ) -> None:
        existing = {name.lower() for name in columns}
        for name in self._named():
            if name.lower() not in existing:
                computed = ", ".join(sorted(lineage.reading({name.lower()}) & existing))
                also = f"; drop or mask {computed} by name, which was computed of it" if computed else ""
                raise self._refused(source, name, f"which the table does not have{also}")
        result = [self.renamed.get(name.lower(), name).lower() for name in columns if name.lower() in names]
        result += [name.lower() for name in self.computed]
        if self.process is not None:
            missing = next((name for name in self.process.reads if name.lower() not in result), None)
            if missing is not None:
                raise ProcessFailed(f"reads column {missing}, which consumers do not have")
            result += [each.name.lower() for each in self.process.added]
        if not result:
            raise self._refused(source, ", ".join(columns), "and so keeps none of its columns")
        for name in result:
            if result.count(name) > 1:
                raise self._refused(source, name, "which the result would have twice")

    def _named(self) -> Iterable[str]:
        yield from sorted(self.white_columns | self.black_columns)
        yield from self.renamed
        yield from self.masks
        for expression in (*([] if self.where is None else [self.where]), *self.computed.values()):
            yield from columns_of(expression)

    def _refused(self, source: TableName, column: str, why: str) -> DataError:
        hint = "Correct filter.tables in the instance file."
        if not self.matches(source):
            hint = (
                f"The rule applies to {source} because that had a name that it matches, was made like such a"
                " table, or has the name of a tool's copy. Give it an entry of its own before this one in"
                " filter.tables, or leave it out by filter.black."
            )
        return DataError(
            f"The filter's rule {self.match!r} names column {column} of {source}, {why}.",
            hint=hint,
            table=str(source),
            column=column,
        )


def _nulled(values: Any, hidden: NDArray[np.bool_]) -> Any:
    return pc.if_else(pa.array(hidden), pa.scalar(None, values.type), values) if hidden.any() else values
