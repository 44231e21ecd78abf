"""Numbers and their texts: the table that every output is compared with, and a slow model of DOUBLE."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

#: doubles whose texts differ from one notation to another, or that are hard to print
DOUBLES: Final = (
    0.0, -0.0, 1.0, -1.0, 0.1, 0.5, 1.5, 100.0, 0.30000000000000004, 123456.0, 16777216.0, 1e10, 1.5e10,
    1e14, -1.5e14, 1e15, 1e16, 1e17, 1e20, 1e21, 1e22, 1e23, 1e100, 1.5e300, 1.7976931348623157e308,
    123456789012345.6, 999999999999999.9, 1234567890123456.5, 12345678901234567.0, 9007199254740993.0,
    1e-4, 1e-5, 1.25e-7, 1e-14, 1e-15, -1.5e-15, 1e-16, 3.56836074865e-15, 5.960464477539063e-08, 2.0**-44,
    2.0**53, 2.0**63, -(2.0**63), 2.0**64, 5e-324, 2.2250738585072014e-308,
)  # fmt: skip
#: type as the source writes it -> Arrow type, values and their texts, as every output has them
NUMBERS: Final[dict[str, tuple[Any, list[Any], list[str]]]] = {
    "bigint": (pa.int64(), [0, -(2**63)], ["0", "-9223372036854775808"]),
    "bigint unsigned": (pa.uint64(), [2**64 - 1], ["18446744073709551615"]),
    "float": (
        pa.float32(),
        [0.0, -0.0, 1.0, 0.1, 16777216.0, 1e10, 1e15, 1e-7, 1e-16, 1.75e38],
        ["0", "-0", "1", "0.1", "16777216", "10000000000", "1e15", "0.0000001", "1e-16", "1.75e38"],
    ),
    "double": (
        pa.float64(),
        [0.0, -0.0, 1.0, 100.0, 0.1, 1e14, 1e15, 1234567890123456.5, 1e16, -1e20, 1e-5, 1e-15, 1e-16, 5e-324,
         1.7976931348623157e308],
        ["0", "-0", "1", "100", "0.1", "100000000000000", "1e15", "1234567890123456.5", "1e16", "-1e20",
         "0.00001", "0.000000000000001", "1e-16", "5e-324", "1.7976931348623157e308"],
    ),
    "decimal(5,0)": (pa.decimal128(5, 0), [Decimal(0), Decimal(-7), Decimal(10000)], ["0", "-7", "10000"]),
    "decimal(10,7)": (
        pa.decimal128(10, 7),
        [Decimal(0), Decimal("1E-7"), Decimal("-1E-7"), Decimal("-1.5"), Decimal(100)],
        ["0.0000000", "0.0000001", "-0.0000001", "-1.5000000", "100.0000000"],
    ),
    "decimal(38,30)": (
        pa.decimal128(38, 30),
        [Decimal(0), Decimal("-1E-30"), Decimal(99999999)],
        ["0." + "0" * 30, "-0." + "0" * 29 + "1", "99999999." + "0" * 30],
    ),
    "decimal(65,30)": (
        pa.decimal256(65, 30),
        [*map(Decimal, (0, "1E-30", "1.5", -(10**34), 2**64, -(2**100)))],
        ["0." + "0" * 30, "0." + "0" * 29 + "1", "1.5" + "0" * 29, "-1" + "0" * 34 + "." + "0" * 30,
         "18446744073709551616." + "0" * 30, "-1267650600228229401496703205376." + "0" * 30],
    ),
    "decimal(65,0)": (
        pa.decimal256(65, 0), [Decimal(0), -Decimal(10) ** 64, Decimal(2**192)],
        ["0", "-1" + "0" * 64, "6277101735386680763835789423207666416102355444464034512896"],
    ),
}  # fmt: skip


def double_text(value: float) -> str:
    """Return a DOUBLE's text in slow words, as MySQL's `my_gcvt` does: digits, and where the point goes."""
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    written = "".join(map(str, digits)).rstrip("0") or "0"
    point = len(digits) + int(exponent) if value else 1
    minus = "-" if sign else ""
    if -14 <= point <= 15 or 0 < point < len(written):
        if point <= 0:
            return f"{minus}0.{'0' * -point}{written}"
        whole, fraction = written[:point].ljust(point, "0"), written[point:]
        return f"{minus}{whole}.{fraction}" if fraction else f"{minus}{whole}"
    mantissa = f"{written[0]}.{written[1:]}" if written[1:] else written
    return f"{minus}{mantissa}e{point - 1}"


def json_double_text(value: float) -> str:
    """Return the text of a double in MySQL's JSON: a DOUBLE's, with ".0" after a whole number's digits."""
    text = double_text(value)
    return text if "." in text or "e" in text else f"{text}.0"
