"""The widest of several Arrow types: the narrowest type that takes the values of all of them.

    integers              the narrowest integer that holds both ranges; signed and uint64: decimal128(20, 0)
    integers, decimals    a decimal with as many digits before and after the point as any of them
    integers, floats      the narrowest float that holds every integer of that size exactly; float64 for those
                          of 64 bits, of which a value that it cannot hold is refused when it is converted
    ENUM, ENUM            a dictionary of all their values
    ENUM, text            text
    DATE, DATETIME        a timestamp without a zone; a date is its midnight

Every other pair of different types has none: no type takes the values of both exactly.
The result does not depend on the order of the types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

#: bits of a float's significand
_SIGNIFICAND = {pa.float32(): 24, pa.float64(): 53}
_SIGNED = {bits: getattr(pa, f"int{bits}")() for bits in (8, 16, 32, 64)}
_UNSIGNED = {bits: getattr(pa, f"uint{bits}")() for bits in (8, 16, 32, 64)}
#: digits of the greatest value
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
_DIGITS_SIGNED_64 = 19
_DECIMAL_128, _DECIMAL_256 = 38, 76
_BITS_MAX = 64


def widest(types: Iterable[Any]) -> Any:
    """Return the narrowest type that takes the values of all types; None if there is none.

    Args:
        types: Arrow types that a table's columns have; at least one.
    """
    kinds = list(dict.fromkeys(types))
    if len(kinds) > 1 and not all(map(pa.types.is_dictionary, kinds)):
        kinds = list(dict.fromkeys(_plain(each) for each in kinds))
    if len(kinds) == 1:
        return kinds[0]
    for takes, widen in _FAMILIES:
        if all(takes(each) for each in kinds):
            return widen(kinds)
    return None


def _plain(kind: Any) -> Any:
    """Return the type of a dictionary's values, or the type itself."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _integer(types: list[Any]) -> Any:
    signed = [each.bit_width for each in types if pa.types.is_signed_integer(each)]
    unsigned = [each.bit_width for each in types if pa.types.is_unsigned_integer(each)]
    if not signed:
        return _UNSIGNED[max(unsigned)]
    bits = max([*signed, *(2 * each for each in unsigned)])
    return _SIGNED[bits] if bits <= _BITS_MAX else pa.decimal128(_DIGITS[64], 0)


def _decimal(types: list[Any]) -> Any:
    digits = max(_digits_before_point(each) for each in types)
    scale = max(each.scale if pa.types.is_decimal(each) else 0 for each in types)
    wide = digits + scale > _DECIMAL_128 or any(pa.types.is_decimal256(each) for each in types)
    if digits + scale > _DECIMAL_256:
        return None
    return (pa.decimal256 if wide else pa.decimal128)(digits + scale, scale)


def _digits_before_point(kind: Any) -> int:
    if pa.types.is_decimal(kind):
        return int(kind.precision - kind.scale)
    return _DIGITS_SIGNED_64 if kind == pa.int64() else _DIGITS[kind.bit_width]


def _float(types: list[Any]) -> Any:
    integers = [each for each in types if pa.types.is_integer(each)]
    bits = max((each.bit_width - pa.types.is_signed_integer(each) for each in integers), default=0)
    floats = [each for each in types if pa.types.is_floating(each)]
    return pa.float64() if pa.float64() in floats or bits > _SIGNIFICAND[pa.float32()] else pa.float32()


def _enum(types: list[Any]) -> Any:
    return max(types, key=lambda each: int(each.index_type.bit_width))


def _takes_decimal(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_decimal(kind))


def _takes_float(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _takes_moment(kind: Any) -> bool:
    return kind in (pa.date32(), pa.timestamp("us"))


#: the first that takes every type decides
_FAMILIES: tuple[tuple[Callable[[Any], bool], Callable[[list[Any]], Any]], ...] = (
    (pa.types.is_dictionary, _enum),
    (pa.types.is_integer, _integer),
    (_takes_decimal, _decimal),
    (_takes_float, _float),
    (_takes_moment, lambda _: pa.timestamp("us")),
)
