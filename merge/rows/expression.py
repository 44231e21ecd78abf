"""Expressions: conditions and values of a row, evaluated over whole Arrow columns.

SQL's rules, with these differences: text compares by code points, whatever the column's collation; text is
not converted to a number; `/` yields a double, and division by zero NULL; an overflow is an error. A
condition that is NULL is not fulfilled.

`conf.filters.expression_text` makes expressions from text; this module holds their form and meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from merge.rows.text import text

#: wide enough for every BIGINT UNSIGNED
_UNSIGNED = pa.decimal128(20, 0)


@dataclass(frozen=True, slots=True)
class Column:
    """A column's value; upper and lower case alike."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that the expression holds; None is NULL."""

    value: bool | int | float | Decimal | str | None


@dataclass(frozen=True, slots=True)
class Call:
    """An operator or function and its arguments; its name is a key of `OPERATORS`."""

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


def value_of(expression: Expression, columns: Mapping[str, Any], count: int) -> Any:
    """Return an expression's value for each of `count` rows as an Arrow array.

    Args:
        expression: what to compute.
        columns: (count,) arrays by lower-case name.
        count: rows.

    Raises:
        KeyError: there is no such column.
        pa.ArrowException: the operator does not take values of these types, or a result does not fit.
    """
    value = _value(expression, columns)
    if isinstance(value, pa.Scalar):
        return pa.repeat(value, count)
    return value


def fulfilled(expression: Expression, columns: Mapping[str, Any], count: int) -> Any:
    """Return whether each row fulfils a condition, as a boolean array without nulls; see `value_of`."""
    return pc.fill_null(_truth(value_of(expression, columns, count)), False)


def _value(expression: Expression, columns: Mapping[str, Any]) -> Any:
    if isinstance(expression, Column):
        return _plain(columns[expression.name.lower()])
    if isinstance(expression, Constant):
        return pa.scalar(expression.value)
    return OPERATORS[expression.operator](*(_value(each, columns) for each in expression.arguments))


def _plain(array: Any) -> Any:
    """Return an array in a type that the operators take: ENUM as text, BIGINT UNSIGNED as a decimal."""
    if pa.types.is_dictionary(array.type):
        return array.dictionary_decode()
    return array.cast(_UNSIGNED) if pa.types.is_uint64(array.type) else array


def _truth(value: Any) -> Any:
    kind = value.type
    if pa.types.is_boolean(kind):
        return value
    if pa.types.is_null(kind):
        return value.cast(pa.bool_())
    if not _is_number(kind):
        raise pa.ArrowTypeError(f"{kind} is no condition")
    return pc.not_equal(value, pa.scalar(0))


def _is_number(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _alike(one: Any, two: Any) -> tuple[Any, Any]:
    """Return both in types that compare: a text constant in the type of the other side, TRUE as 1."""
    one, two = (each.cast(pa.int8()) if pa.types.is_boolean(each.type) else each for each in (one, two))
    if pa.types.is_null(one.type):
        one = one.cast(two.type)
    if pa.types.is_null(two.type):
        two = two.cast(one.type)
    one, two = _as_typed(one, two.type), _as_typed(two, one.type)
    if pa.types.is_floating(one.type) or pa.types.is_floating(two.type):
        one, two = (each.cast(pa.float64()) if _is_number(each.type) else each for each in (one, two))
    if _is_number(one.type) != _is_number(two.type):
        raise pa.ArrowTypeError(f"{one.type} and {two.type} do not compare")
    return one, two


def _as_typed(value: Any, kind: Any) -> Any:
    constant = isinstance(value, pa.Scalar) and pa.types.is_string(value.type)
    return value.cast(kind) if constant and not pa.types.is_string(kind) else value


def _compared(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda one, two: function(*_alike(one, two))


def _same(one: Any, two: Any) -> Any:
    """Return SQL's `<=>`: NULL is equal to NULL and to nothing else."""
    one, two = _alike(one, two)
    both = pc.and_(pc.is_null(one), pc.is_null(two))
    return pc.or_(pc.fill_null(pc.equal(one, two), False), both)


def _in(value: Any, *listed: Any) -> Any:
    found = _compared(pc.equal)(value, listed[0])
    for each in listed[1:]:
        found = pc.or_kleene(found, _compared(pc.equal)(value, each))
    return found


def _numbers(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return arithmetic that refuses everything but numbers."""

    def computed(*values: Any) -> Any:
        for value in values:
            if not _is_number(value.type) and not pa.types.is_null(value.type):
                raise pa.ArrowTypeError(f"{value.type} is no number")
        return function(*values)

    return computed


def _quotient(one: Any, two: Any) -> Any:
    one, two = one.cast(pa.float64()), two.cast(pa.float64())
    return pc.divide(one, pc.if_else(pc.equal(two, 0.0), pa.scalar(None, pa.float64()), two))


def _remainder(one: Any, two: Any) -> Any:
    for value in (one, two):
        if not pa.types.is_integer(value.type) and value.type != _UNSIGNED:
            raise pa.ArrowTypeError(f"% takes whole numbers, not {value.type}")
    one, two = one.cast(pa.int64()), two.cast(pa.int64())
    two = pc.if_else(pc.equal(two, 0), pa.scalar(None, pa.int64()), two)
    return pc.subtract(one, pc.multiply(pc.divide(one, two), two))


def _like(value: Any, pattern: Any) -> Any:
    if not isinstance(pattern, pa.Scalar) or not pa.types.is_string(pattern.type):
        raise pa.ArrowTypeError("LIKE takes a text constant")
    return pc.match_like(value, pattern.as_py())


def _concatenated(*values: Any) -> Any:
    return pc.binary_join_element_wise(*map(_text, values), "")


def _text(value: Any) -> Any:
    """Return the text of a value; TRUE is 1, and bytes are UTF-8."""
    if isinstance(value, pa.Scalar):
        return _text(pa.repeat(value, 1))[0]
    if pa.types.is_binary(value.type):
        return value.cast(pa.utf8())
    return text(value.cast(pa.int8()) if pa.types.is_boolean(value.type) else value)


def _left(value: Any, count: Any) -> Any:
    return pc.utf8_slice_codeunits(value, 0, max(int(count.as_py()), 0))


def _right(value: Any, count: Any) -> Any:
    wanted = int(count.as_py())
    return pc.utf8_slice_codeunits(value, -wanted) if wanted > 0 else _left(value, pa.scalar(0))


#: what each operator computes; arguments are arrays or scalars
OPERATORS: dict[str, Callable[..., Any]] = {
    "and": lambda one, two: pc.and_kleene(_truth(one), _truth(two)),
    "or": lambda one, two: pc.or_kleene(_truth(one), _truth(two)),
    "not": lambda one: pc.invert(_truth(one)),
    "is_null": pc.is_null,
    "=": _compared(pc.equal),
    "<>": _compared(pc.not_equal),
    "<": _compared(pc.less),
    "<=": _compared(pc.less_equal),
    ">": _compared(pc.greater),
    ">=": _compared(pc.greater_equal),
    "<=>": _same,
    "in": _in,
    "like": _like,
    "+": _numbers(pc.add_checked),
    "-": _numbers(pc.subtract_checked),
    "*": _numbers(pc.multiply_checked),
    "/": _numbers(_quotient),
    "%": _numbers(_remainder),
    "negate": _numbers(pc.negate_checked),
    "abs": _numbers(pc.abs_checked),
    "lower": pc.utf8_lower,
    "upper": pc.utf8_upper,
    "char_length": pc.utf8_length,
    "concat": _concatenated,
    "coalesce": pc.coalesce,
    "left": _left,
    "right": _right,
}
