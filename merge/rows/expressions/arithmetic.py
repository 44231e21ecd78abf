"""Arithmetic: the server's results for two numbers.

    whole numbers     BIGINT, and BIGINT UNSIGNED where one side is unsigned
    DECIMAL           exact, of 65 digits at most; a whole number beside it is one as well
    FLOAT, DOUBLE     double; any number beside it is one as well

A result that does not fit is an error at the server, and raises here. YEAR and BIT are unsigned. `/` of exact
numbers is refused: how many digits the server keeps of it depends on a session's settings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from canal_group.merge.values.types.kinds import Storage

#: digits of a DECIMAL, and those after the point
_DIGITS_MAX: Final = 65
_SCALE_MAX: Final = 30
#: digits of Arrow's types
_DIGITS_128: Final = 38
_DIGITS_256: Final = 76
#: digits of a BIGINT, and of a BIGINT UNSIGNED
_DIGITS: Final = {pa.int64(): 19, pa.uint64(): 20}
#: a whole number in a text that every type can hold
_CHARS_MAX: Final = 16


def is_number(kind: Any) -> bool:
    """Return whether a type is one of numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def plain_number(array: Any, storage: Storage | None) -> Any:
    """Return a column in the type in which the server computes with it; one without numbers as it is.

    Args:
        array: its values.
        storage: how the source stores it; None if that is unknown.
    """
    if pa.types.is_integer(array.type):
        unsigned = pa.types.is_unsigned_integer(array.type) or storage is Storage.YEAR
        return array.cast(pa.uint64() if unsigned else pa.int64())
    return array.cast(pa.float64()) if pa.types.is_floating(array.type) else array


def number_of(value: Any) -> Any:
    """Return TRUE as 1, and everything else as it is."""
    return value.cast(pa.int64()) if pa.types.is_boolean(value.type) else value


def as_alike(one: Any, two: Any) -> tuple[Any, Any]:
    """Return two values in the type in which the server compares them; a text must be a constant number."""
    one, two = _spelled(one), _spelled(two)
    if not is_number(one.type) or not is_number(two.type):
        raise pa.ArrowTypeError(f"{one.type} and {two.type} do not compare")
    if pa.types.is_floating(one.type) or pa.types.is_floating(two.type):
        return _double(one), _double(two)
    if pa.types.is_decimal(one.type) or pa.types.is_decimal(two.type):
        return _alike_decimals(_decimal(one), _decimal(two))
    if one.type == two.type:
        return one, two
    return one.cast(pa.decimal128(20, 0)), two.cast(pa.decimal128(20, 0))


def _spelled(value: Any) -> Any:
    """Return a text constant as the number that it spells."""
    if not pa.types.is_string(value.type):
        return value
    text = value.as_py() if isinstance(value, pa.Scalar) else None
    if text is None or not text.removeprefix("-").isdecimal() or not text.isascii() or len(text) > _CHARS_MAX:
        raise pa.ArrowTypeError(
            "a number compares with another one, or with a whole one in quotes, not with a string"
        )
    return pa.scalar(int(text))


def _double(value: Any) -> Any:
    if pa.types.is_decimal(value.type):
        return value.cast(pa.utf8()).cast(pa.float64())  # rounded once, as the server rounds it
    return value.cast(pa.float64(), safe=False) if pa.types.is_integer(value.type) else value


def _decimal(value: Any) -> Any:
    return value if pa.types.is_decimal(value.type) else value.cast(pa.decimal128(_DIGITS[value.type], 0))


def _alike_decimals(one: Any, two: Any) -> tuple[Any, Any]:
    scale = max(one.type.scale, two.type.scale)
    digits = max(each.type.precision - each.type.scale for each in (one, two)) + scale
    kind = _decimal_type(digits, scale)
    return one.cast(kind), two.cast(kind)


def _decimal_type(digits: int, scale: int) -> Any:
    if digits > _DIGITS_256:
        raise pa.ArrowInvalid(f"a DECIMAL of {digits} digits is too long")
    return (pa.decimal128 if digits <= _DIGITS_128 else pa.decimal256)(digits, scale)


def _operation(plain: Callable[..., Any], checked: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """Return +, - or *.

    Args:
        plain: Arrow's function for numbers that cannot overflow.
        checked: the same, which raises if a whole number does.
    """

    def computed(one: Any, two: Any) -> Any:
        one, two = _operands(one, two)
        if pa.types.is_floating(one.type) or pa.types.is_floating(two.type):
            return _finite(plain(_double(one), _double(two)))
        if pa.types.is_decimal(one.type) or pa.types.is_decimal(two.type):
            return _of_decimals(plain, _decimal(one), _decimal(two))
        if one.type == two.type == pa.int64():
            return checked(one, two)
        # 41 digits hold every sum and product.
        wide = pa.decimal256(20, 0)
        return plain(one.cast(wide), two.cast(wide)).cast(pa.uint64())

    return computed


def _operands(one: Any, two: Any) -> tuple[Any, Any]:
    one, two = number_of(one), number_of(two)
    for value in (one, two):
        if not is_number(value.type) and not pa.types.is_null(value.type):
            raise pa.ArrowTypeError(f"{value.type} is not a number")
    if pa.types.is_null(one.type):
        one = one.cast(pa.int64() if pa.types.is_null(two.type) else two.type)
    return one, two.cast(one.type) if pa.types.is_null(two.type) else two


def _of_decimals(plain: Callable[..., Any], one: Any, two: Any) -> Any:
    kind = plain(
        pa.scalar(None, pa.decimal256(one.type.precision, one.type.scale)), pa.scalar(None, two.type)
    ).type
    if kind.scale > _SCALE_MAX:
        raise pa.ArrowInvalid(f"a DECIMAL with {kind.scale} digits after the point is rounded by the server")
    if kind.precision > _DIGITS_128:
        one, two = (each.cast(pa.decimal256(each.type.precision, each.type.scale)) for each in (one, two))
    result = plain(one, two)
    return result.cast(pa.decimal256(_DIGITS_MAX, kind.scale)) if kind.precision > _DIGITS_MAX else result


def _finite(value: Any) -> Any:
    finite = pc.is_finite(value)
    if isinstance(finite, pa.Scalar):
        wrong = finite.is_valid and not finite.as_py()
    else:
        wrong = bool(pc.any(pc.invert(finite)).as_py())
    if wrong:
        raise pa.ArrowInvalid("a DOUBLE is out of range")
    return value


def _quotient(one: Any, two: Any) -> Any:
    one, two = _operands(one, two)
    if not pa.types.is_floating(one.type) and not pa.types.is_floating(two.type):
        raise pa.ArrowTypeError("/ of exact numbers is rounded by the server; multiply one of them by 1e0")
    one, two = _double(one), _double(two)
    return _finite(pc.divide(one, pc.if_else(pc.equal(two, 0.0), pa.scalar(None, pa.float64()), two)))


def _remainder(one: Any, two: Any) -> Any:
    """Return the remainder of %: it has the sign of the first number, and is unsigned if that is."""
    one, two = _operands(one, two)
    for value in (one, two):
        if not pa.types.is_integer(value.type):
            raise pa.ArrowTypeError(f"% takes whole numbers, not {value.type}")
    kind = one.type
    if kind == two.type == pa.int64():
        two = pc.if_else(pc.equal(two, -1), 1, two)  # the same, and does not overflow
        two = pc.if_else(pc.equal(two, 0), pa.scalar(None, kind), two)
        return pc.subtract(one, pc.multiply(pc.divide(one, two), two))
    wide = pa.decimal256(20, 0)
    one, two = one.cast(wide), two.cast(wide)
    two = pc.if_else(pc.equal(two, pa.scalar(0).cast(wide)), pa.scalar(None, wide), two)
    whole = pc.trunc(pc.divide(one, two)).cast(wide)
    return pc.subtract(one, pc.multiply(whole, two)).cast(kind)


def _negated(value: Any) -> Any:
    value, _ = _operands(value, value)
    if value.type == pa.uint64():
        return pc.negate(value.cast(pa.decimal128(20, 0))).cast(pa.int64())
    return pc.negate_checked(value)


def _absolute(value: Any) -> Any:
    return pc.abs_checked(_operands(value, value)[0])


#: name of an operator -> its function; values are arrays or scalars
ARITHMETIC: Final[dict[str, Callable[..., Any]]] = {
    "+": _operation(pc.add, pc.add_checked),
    "-": _operation(pc.subtract, pc.subtract_checked),
    "*": _operation(pc.multiply, pc.multiply_checked),
    "/": _quotient,
    "%": _remainder,
    "negate": _negated,
    "abs": _absolute,
}
