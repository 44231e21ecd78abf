"""Expressions: conditions and values of a row, evaluated over whole Arrow columns.

They are evaluated as in a SELECT of the server, with these differences: text compares by code points, for any
collation of the column; an expression that depends on a session's settings or on the server's rounding is
refused, by types, before any row is read. Whole numbers are BIGINT, UNSIGNED where one side is; a result that
does not fit is an error, as at the server. A condition that is NULL is not fulfilled.

`canal_group.conf.filters.expression_text` makes expressions from text; this module holds their form and
meaning, `canal_group.merge.rows.expressions.arithmetic` that of numbers, and
`canal_group.merge.rows.expressions.moment_texts` that of dates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import partial, reduce
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from canal_group.merge.rows.expressions.arithmetic import (
    ARITHMETIC,
    as_alike,
    is_number,
    number_of,
    plain_number,
)
from canal_group.merge.rows.expressions.moment_texts import moment_of, moment_texts, time_of
from canal_group.merge.rows.text import text
from canal_group.merge.values.rows.moments import has_odd, is_moment, kept_of, keys_of, nulls_of
from canal_group.merge.values.types.kinds import Storage
from canal_group.merge.values.types.table import row_of

#: operators that compare two values
_COMPARING = frozenset({"=", "<>", "<", "<=", ">", ">=", "<=>", "in", "between"})
#: numbers below it are years of two digits where they are compared with a YEAR
_LONG_YEAR = 100


@dataclass(frozen=True, slots=True)
class Column:
    """A column's value; upper and lower case alike."""

    name: str


Plain: TypeAlias = bool | int | float | Decimal | str | None


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that the expression holds; None is NULL."""

    value: Plain


@dataclass(frozen=True, slots=True)
class Call:
    """An operator or function and its arguments; see `OPERATORS`, and `_LAZY` of `_Evaluation`."""

    operator: str
    arguments: tuple[Expression, ...]


Expression: TypeAlias = Column | Constant | Call


def columns_of(expression: Expression) -> Iterator[str]:
    """Yield the names of the columns that an expression reads, as it spells them."""
    if isinstance(expression, Column):
        yield expression.name
    elif isinstance(expression, Call):
        for argument in expression.arguments:
            yield from columns_of(argument)


def value_of(
    expression: Expression, columns: Mapping[str, Any], count: int, types: Mapping[str, str] | None = None
) -> Any:
    """Return an expression's value for each of `count` rows as an Arrow array.

    Args:
        expression: the expression.
        columns: (count,) arrays by lower-case name.
        count: rows.
        types: the columns' types as the source writes them, by lower-case name; without one, that of
            the array decides.

    Raises:
        KeyError: there is no such column.
        pa.ArrowException: the operator does not take values of these types, or a result does not fit.
    """
    if isinstance(expression, Column):
        return _decoded(columns[expression.name.lower()])
    value = _Evaluation(columns, types or {}).value(expression)
    if isinstance(value, pa.Scalar):
        return pa.repeat(value, count)
    return value


def fulfilled(
    expression: Expression, columns: Mapping[str, Any], count: int, types: Mapping[str, str] | None = None
) -> Any:
    """Return whether each row fulfils a condition, as a boolean array without nulls; see `value_of`."""
    return pc.fill_null(_truth(value_of(expression, columns, count, types)), False)


@dataclass(frozen=True, slots=True)
class _Evaluation:
    columns: Mapping[str, Any]
    types: Mapping[str, str]

    def value(self, expression: Expression) -> Any:
        if isinstance(expression, Constant):
            return _constant(expression.value)
        if isinstance(expression, Column):
            return plain_number(_decoded(self.columns[expression.name.lower()]), self._storage(expression))
        if expression.operator in _COMPARING:
            self._check_compared(expression)
        lazy = self._LAZY.get(expression.operator)
        if lazy is not None:
            return lazy(self, *expression.arguments)
        if expression.operator == "concat":
            return OPERATORS["concat"](*map(self._text, expression.arguments))
        if expression.operator == "<=>":
            return _same(*map(self.value, expression.arguments))
        values = list[Any]()
        for each in expression.arguments:
            # NULL on the left decides.
            values.append(self._needed(each, partial(_are_valid, values)))
        return OPERATORS[expression.operator](*values)

    def _and(self, one: Expression, two: Expression) -> Any:
        first = _truth(self.value(one))
        return pc.and_kleene(first, _truth(self._needed(two, lambda: pc.fill_null(first, True))))

    def _or(self, one: Expression, two: Expression) -> Any:
        first = _truth(self.value(one))
        return pc.or_kleene(first, _truth(self._needed(two, lambda: pc.invert(pc.fill_null(first, False)))))

    def _in(self, value: Expression, *listed: Expression) -> Any:
        result, one = pa.scalar(False), self.value(value)
        for each in listed:
            two = self._needed(each, partial(_is_open, one, result))
            result = pc.or_kleene(result, _compared(pc.equal)(one, two))
        return result

    def _coalesced(self, *arguments: Expression) -> Any:
        result = self.value(arguments[0])
        for each in arguments[1:]:
            result = _filled(result, self._needed(each, partial(pc.is_null, result)))
        return result

    _LAZY: ClassVar[dict[str, Callable[..., Any]]] = {
        "and": _and,
        "or": _or,
        "in": _in,
        "coalesce": _coalesced,
    }

    def _needed(self, expression: Expression, where: Callable[[], Any]) -> Any:
        """Return the value of an expression; of rows that do not need it, only if it has one.

        Servers compute from left to right; an overflow in a part that they do not compute is not an error.

        Args:
            expression: the expression.
            where: returns which rows need it.
        """
        try:
            return self.value(expression)
        except pa.ArrowInvalid:
            needed = where()
            if (needed if isinstance(needed, pa.Scalar) else pc.all(needed)).as_py():
                raise
        if isinstance(needed, pa.Scalar):
            none = _Evaluation({name: array[:0] for name, array in self.columns.items()}, self.types)
            return pa.scalar(None, none.value(expression).type)
        mask = np.asarray(needed)
        some = _Evaluation({name: kept_of(array, mask) for name, array in self.columns.items()}, self.types)
        part = some.value(expression)
        return pc.replace_with_mask(pa.nulls(len(mask), part.type), needed, part)

    def _text(self, expression: Expression) -> Any:
        """Return the text of a value; that of a column is as its type has it."""
        if not isinstance(expression, Column):
            return _text(self.value(expression))
        if self._storage(expression) is Storage.BIT:
            raise pa.ArrowTypeError("CONCAT does not take a BIT: the server makes bytes of it")
        array, name = _decoded(self.columns[expression.name.lower()]), expression.name.lower()
        mysql_type = self.types.get(name, "")
        return moment_texts(array, mysql_type) if is_moment(array.type) else _text(array, mysql_type)

    def _storage(self, expression: Expression) -> Storage | None:
        """Return how the source stores a column; None for anything else, and if it is unknown."""
        if not isinstance(expression, Column):
            return None
        row = row_of(self.types.get(expression.name.lower(), ""))
        return None if row is None else row.storage

    def _check_compared(self, call: Call) -> None:
        """Refuse constants that servers convert in a way of their own to compare them with a column."""
        first, arguments = call.arguments[0], call.arguments
        if (
            call.operator in {"in", "between"}
            and isinstance(first, Constant)
            and isinstance(first.value, str)
        ):
            raise pa.ArrowTypeError("IN and BETWEEN do not take a text as their first value")
        if call.operator == "in" and self._mixes_signs(first, call.arguments[1:]):
            raise pa.ArrowTypeError(
                "IN with columns in its list does not take whole numbers with and without a sign: the "
                "servers differ; write a = b OR a = c"
            )
        storages = {self._storage(each) for each in arguments}
        if storages.isdisjoint({Storage.BIT, Storage.YEAR}):
            return
        for constant in (self.value(each).as_py() for each in arguments if not any(columns_of(each))):
            if Storage.BIT in storages and isinstance(constant, str):
                raise pa.ArrowTypeError("a BIT compares with a number, not with a text")
            if Storage.YEAR in storages and _is_short_year(constant):
                raise pa.ArrowTypeError("a YEAR compares with a number of four digits")

    def _mixes_signs(self, first: Expression, listed: tuple[Expression, ...]) -> bool:
        """Return whether MySQL would compare a BIGINT UNSIGNED and a number with a sign by their bits."""
        if len(listed) == 1 or not any(any(columns_of(each)) for each in listed):
            return False
        return any(self._sign(first) * self._sign(each) < 0 for each in listed)

    def _sign(self, expression: Expression) -> int:
        """Return 1 if a whole number may be 2^63 and more, -1 if it may be negative, else 0."""
        if not any(columns_of(expression)):
            number = self.value(expression).as_py()
            return 0 if type(number) is not int else -1 if number < 0 else int(number >= 1 << 63)
        if isinstance(expression, Column):
            kind = self.columns[expression.name.lower()].type
            if self._storage(expression) is Storage.YEAR:
                return 0
        else:
            none = {name: array[:0] for name, array in self.columns.items()}
            kind = _Evaluation(none, self.types).value(expression).type
        return int(kind == pa.uint64()) - int(pa.types.is_signed_integer(kind))


def _is_short_year(constant: Plain) -> bool:
    if isinstance(constant, str):
        return not (constant.isdecimal() and len(constant) == 4)  # noqa: PLR2004  digits of a year
    return constant is not None and 0 < abs(float(constant)) < _LONG_YEAR


def _constant(value: Plain) -> Any:
    unsigned = type(value) is int and value >= 1 << 63
    return pa.scalar(value, pa.uint64()) if unsigned else pa.scalar(value)


def _decoded(array: Any) -> Any:
    """Return an array without a dictionary: an ENUM is a text."""
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _truth(value: Any) -> Any:
    kind = value.type
    if pa.types.is_boolean(kind):
        return value
    if pa.types.is_null(kind):
        return value.cast(pa.bool_())
    if not is_number(kind):
        raise pa.ArrowTypeError(f"{kind} is not a condition")
    return pc.not_equal(value, pa.scalar(0).cast(kind))


def _alike(one: Any, two: Any) -> tuple[Any, Any]:
    """Return both in types that compare: a text constant in the type of the other side, TRUE as 1."""
    one, two = (number_of(each) for each in (one, two))
    if pa.types.is_null(one.type):
        one = one.cast(two.type)
    if pa.types.is_null(two.type):
        two = two.cast(one.type)
    if is_moment(one.type) or is_moment(two.type):
        return _moments(one, two)
    if pa.types.is_duration(one.type) or pa.types.is_duration(two.type):
        one, two = (_duration(each) for each in (one, two))
    if is_number(one.type) or is_number(two.type):
        return as_alike(one, two)
    if one.type != two.type:
        raise pa.ArrowTypeError(f"{one.type} and {two.type} do not compare")
    return one, two


def _moments(one: Any, two: Any) -> tuple[Any, Any]:
    """Return dates and times as values that compare: as they are, or their keys if one is in no calendar."""
    constants = {}
    for index, each in enumerate((one, two)):
        if isinstance(each, pa.Scalar) and pa.types.is_string(each.type) and each.is_valid:
            moment = moment_of(each.as_py())
            if moment is None:
                raise pa.ArrowTypeError("a date compares with a text 'YYYY-MM-DD' or 'YYYY-MM-DD HH:MM:SS'")
            constants[index] = moment
        elif not is_moment(each.type):
            raise pa.ArrowTypeError(f"{one.type} and {two.type} do not compare")
    zones = {each.type.tz is None for each in (one, two) if pa.types.is_timestamp(each.type)}
    if len(zones) > 1:
        raise pa.ArrowTypeError("a TIMESTAMP and a DATETIME compare in the zone of a session")
    if any(isinstance(each, pa.Array) and has_odd(each) for each in (one, two)) or any(
        scalar is None for _, scalar in constants.values()
    ):
        keys = [
            pa.scalar(constants[index][0]) if index in constants else _keys(each)
            for index, each in enumerate((one, two))
        ]
        return keys[0], keys[1]
    plain = [
        constants[index][1] if index in constants else each.cast(pa.timestamp("us"))
        for index, each in enumerate((one, two))
    ]
    return plain[0], plain[1]


def _keys(value: Any) -> Any:
    return (
        keys_of(pa.array([value.as_py()], value.type))[0] if isinstance(value, pa.Scalar) else keys_of(value)
    )


def _duration(value: Any) -> Any:
    if pa.types.is_duration(value.type) or not value.is_valid:
        return value
    time = time_of(value.as_py()) if isinstance(value, pa.StringScalar) else None
    if time is None:
        raise pa.ArrowTypeError("a TIME compares with a text 'HH:MM:SS'")
    return time


def _compared(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda one, two: function(*_alike(one, two))


def _is_null(value: Any) -> Any:
    moments = isinstance(value, pa.Array) and is_moment(value.type)
    return nulls_of(value) if moments else pc.is_null(value)


def _same(one: Any, two: Any) -> Any:
    """Return SQL's `<=>`: NULL is equal to NULL and to nothing else."""
    both = pc.and_(_is_null(one), _is_null(two))
    one, two = _alike(one, two)
    return pc.or_(pc.fill_null(pc.equal(one, two), False), both)


def _are_valid(values: list[Any]) -> Any:
    """Return which rows have no NULL in any of some values."""
    return reduce(pc.and_, (pc.invert(_is_null(each)) for each in values), pa.scalar(True))


def _is_open(value: Any, result: Any) -> Any:
    """Return which rows IN has not decided yet."""
    return pc.and_(_are_valid([value]), pc.invert(pc.fill_null(result, False)))


def _between(value: Any, low: Any, high: Any) -> Any:
    return pc.and_kleene(_compared(pc.greater_equal)(value, low), _compared(pc.less_equal)(value, high))


def _like(value: Any, pattern: Any) -> Any:
    if not isinstance(pattern, pa.Scalar) or not pa.types.is_string(pattern.type):
        raise pa.ArrowTypeError("LIKE takes a text constant")
    return pc.match_like(value, pattern.as_py())


def _filled(one: Any, two: Any) -> Any:
    """Return COALESCE of two values."""
    if is_moment(one.type) or is_moment(two.type):
        raise pa.ArrowTypeError("COALESCE does not take dates")
    if pa.types.is_boolean(one.type) != pa.types.is_boolean(two.type):
        one, two = number_of(one), number_of(two)
    apart = {one.type, two.type} == {pa.int64(), pa.uint64()}
    if apart and (not isinstance(two, pa.Scalar) or (two.as_py() or 0) < 0):
        raise pa.ArrowTypeError("COALESCE does not take numbers with and without a sign")
    if is_number(one.type) and is_number(two.type):
        one, two = as_alike(one, two)
    return pc.coalesce(one, two)


def _concatenated(*values: Any) -> Any:
    return pc.binary_join_element_wise(*values, "")


def _text(value: Any, mysql_type: str = "") -> Any:
    """Return the text of a value; TRUE is 1, and bytes are UTF-8."""
    if isinstance(value, pa.Scalar):
        return _text(pa.repeat(value, 1))[0]
    if pa.types.is_binary(value.type):
        return value.cast(pa.utf8())
    return text(number_of(value), mysql_type)


def _left(value: Any, count: Any) -> Any:
    return pc.utf8_slice_codeunits(value, 0, max(int(count.as_py()), 0))


def _right(value: Any, count: Any) -> Any:
    size = int(count.as_py())
    return pc.utf8_slice_codeunits(value, -size) if size > 0 else _left(value, pa.scalar(0))


#: the function of each operator, of the values of its arguments, which are arrays or scalars
OPERATORS: dict[str, Callable[..., Any]] = {
    "not": lambda one: pc.invert(_truth(one)),
    "is_null": _is_null,
    "=": _compared(pc.equal),
    "<>": _compared(pc.not_equal),
    "<": _compared(pc.less),
    "<=": _compared(pc.less_equal),
    ">": _compared(pc.greater),
    ">=": _compared(pc.greater_equal),
    "between": _between,
    "like": _like,
    **ARITHMETIC,
    "lower": pc.utf8_lower,
    "upper": pc.utf8_upper,
    "char_length": pc.utf8_length,
    "concat": _concatenated,
    "left": _left,
    "right": _right,
}
