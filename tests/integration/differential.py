# ruff: noqa: RUF001 - characters of many charsets
"""Tables and rows by chance, over every type of both vendors, and what SELECT says of a value as text.

A `Kind` makes one column: its definition, values as SQL, how it is selected, and how a decoded value compares
with what was selected. The same seed makes the same tables and rows.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

#: an SQL expression and its parameters
Value = tuple[str, tuple[Any, ...]]
NULL: Value = ("NULL", ())
ALPHABET = "aZ09 '\\\"%_\n\0éüßñÆłžőşğαΩжЯщєאבشسกขあ日本語中文字한국어ლ€₪“”–…·§°±½😀𠀀"
CHARSETS = [
    "armscii8 ascii big5 cp1250 cp1251 cp1256 cp1257 cp850 cp852 cp866 cp932 dec8 eucjpms euckr gb2312 gbk",
    "geostd8 greek hebrew hp8 keybcs2 koi8r koi8u latin1 latin2 latin5 latin7 macce macroman sjis swe7",
    "tis620 ucs2 ujis utf16 utf16le utf32 utf8mb3 utf8mb4",
]


@dataclass(frozen=True, slots=True)
class Kind:
    """A column."""

    #: its type, as CREATE TABLE wants it
    sql: str
    value: Callable[[random.Random], Value]
    #: how it is selected; `{}` is its name
    select: str = "{}"
    #: decoded value -> what SELECT gives for it; None: canal's text is compared, as it is
    typed: Callable[[Any], Any] | None = None
    #: whether mysql-replication reads it right
    known_elsewhere: bool = False


def _plain(value: Any) -> Value:
    return ("%s", (value,))


def _integers(bits: int, *, unsigned: bool) -> Callable[[random.Random], Value]:
    low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return lambda chance: _plain(chance.choice((low, high, 0, 1, chance.randint(low, high))))


def _decimals(precision: int, scale: int) -> Callable[[random.Random], Value]:
    def value(chance: random.Random) -> Value:
        digits = f"{chance.randrange(10 ** chance.randint(1, precision)):0{precision}d}"
        if chance.random() < 0.2:
            digits = "9" * precision
        whole, fraction = digits[: precision - scale] or "0", digits[precision - scale :]
        return _plain(chance.choice(("", "-")) + whole + ("." + fraction if scale else ""))

    return value


def _doubles(chance: random.Random) -> Value:
    exponent = chance.randint(-300, 300)
    special = (0.0, -0.5, 1e15, 1e14, 123456789012345.6, 1e-15, 1e-16, 1.7976931348623157e308, 0.1)
    return _plain(repr(chance.choice((*special, chance.uniform(-10, 10) * 10.0**exponent))))


def _floats(chance: random.Random) -> Value:
    (value,) = struct.unpack("<f", struct.pack("<I", chance.getrandbits(32)))
    return _plain(repr(value if math.isfinite(value) and abs(value) > 1e-37 else 0.1))


def _dates(chance: random.Random) -> Value:
    special = (
        "0000-00-00",
        "1000-01-01",
        "9999-12-31",
        "2020-02-29",
        "2020-00-00",
        "0001-01-01",
        "1900-05-00",
    )
    return _plain(chance.choice((*special, str(dt.date.fromordinal(chance.randint(365 * 100, 3652059))))))


def _clock(chance: random.Random) -> str:
    hours, minutes, seconds = chance.randrange(24), chance.randrange(60), chance.randrange(60)
    return f"{hours:02d}:{minutes:02d}:{seconds:02d}.{chance.randrange(10**6):06d}"


def _datetimes(chance: random.Random) -> Value:
    ((date,),) = (_dates(chance)[1],)
    return _plain("0000-00-00 00:00:00" if date == "0000-00-00" else f"{date} {_clock(chance)}")


def _timestamps(chance: random.Random) -> Value:
    special = ("0000-00-00 00:00:00", "1970-01-01 00:00:01", "2038-01-19 03:14:06.5")
    moment = dt.datetime(1971, 1, 1) + dt.timedelta(seconds=chance.randrange(2**31 - 10**8))  # noqa: DTZ001
    return _plain(chance.choice((*special, f"{moment:%Y-%m-%d} {_clock(chance)}")))


def _times(chance: random.Random) -> Value:
    special = ("00:00:00", "-838:59:59", "838:59:59", "-00:00:00.000001", "-00:00:01.5", "-00:00:00.999999")
    return _plain(
        chance.choice((*special, f"{chance.choice(('', '-'))}{chance.randrange(838)}{_clock(chance)[2:]}"))
    )


def _texts(most: int) -> Callable[[random.Random], Value]:
    return lambda chance: _plain(
        "".join(chance.choice(ALPHABET) for _ in range(chance.choice((0, 1, most, chance.randint(0, most)))))
    )


def _bytes(most: int) -> Callable[[random.Random], Value]:
    def value(chance: random.Random) -> Value:
        data = chance.randbytes(chance.choice((0, 1, most, chance.randint(0, most))))
        return _plain(chance.choice((data, data[: most // 2] + bytes(most // 3))))

    return value


def _document(chance: random.Random, depth: int = 0) -> Any:
    roll = chance.random()
    if depth < 4 and roll < 0.3:
        return [_document(chance, depth + 1) for _ in range(chance.randint(0, 6))]
    if depth < 4 and roll < 0.6:
        return {
            f"k{chance.randrange(40)}é"[: chance.randint(1, 5)]: _document(chance, depth + 1)
            for _ in range(5)
        }
    return chance.choice(
        (
            None, True, False, 0, -1, 2**15, -(2**31), 2**31, 2**63 - 1, -(2**63), 2**64 - 1, 0.1, 1e300, 1.5,
            "", 'quo"te\\ \n\t/é日😀', "x" * chance.choice((1, 127, 128, 20000)),
            float(_doubles(chance)[1][0]),
        )
    )  # fmt: skip


def _json(chance: random.Random) -> Value:
    if chance.random() < 0.1:
        return _plain(json.dumps([{"n": number, "t": "y" * 20} for number in range(3000)]))
    return _plain(json.dumps(_document(chance), ensure_ascii=chance.random() < 0.5))


def _opaque_json(chance: random.Random) -> Value:
    (time,), (decimal,) = _times(chance)[1], _decimals(30, 10)(chance)[1]
    moment = f"2020-02-29 {_clock(chance)}"
    parts = [
        ("CAST(%s AS TIME(6))", time), ("CAST(%s AS DECIMAL(40,10))", decimal),
        ("CAST(%s AS DATETIME(6))", moment),
        ("DATE(%s)", moment), ("CAST(%s AS BINARY)", chance.randbytes(chance.randint(0, 300))),
        ("CAST(%s AS UNSIGNED)", 2**64 - 1), ("ST_PointFromText(%s)", "POINT(1 2)"),
        ("CAST(%s AS YEAR)", 2001), ("%s", None),
    ]  # fmt: skip
    chosen = chance.sample(parts, chance.randint(1, len(parts)))
    return f"JSON_ARRAY({', '.join(each for each, _ in chosen)})", tuple(each for _, each in chosen)


def _geometries(function: str) -> Callable[[random.Random], Value]:
    def value(chance: random.Random) -> Value:
        x, y = (chance.choice((0, 1.5, -7e-9, chance.uniform(-80, 80))) for _ in range(2))
        shape = chance.choice(
            (
                f"POINT({x} {y})", f"LINESTRING(0 0,{x} {y})", f"POLYGON((0 0,{x} 1,1 {y},0 0))",
                f"MULTIPOINT({x} {y},1 1)",
                f"GEOMETRYCOLLECTION(POINT({x} {y}),LINESTRING(0 0,1 1))",
            )
        )  # fmt: skip
        return f"{function}(%s, %s)", (
            shape,
            chance.choice((0, 4326)) if function == "ST_GeomFromText" else 0,
        )

    return value


def _vectors(chance: random.Random) -> Value:
    return "STRING_TO_VECTOR(%s)", (str([chance.uniform(-9, 9) for _ in range(chance.randint(1, 8))]),)


def _uuids(chance: random.Random) -> Value:
    digits = f"{chance.getrandbits(128):032x}"
    version, variant = chance.choice("147"), chance.choice("89ab")
    return _plain(
        f"{digits[:8]}-{digits[8:12]}-{version}{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
    )


def _inet6(chance: random.Random) -> Value:
    words = [chance.choice((0, 0, 0, 1, 0xFFFF, chance.randrange(65536))) for _ in range(8)]
    return _plain(":".join(f"{word:x}" for word in words))


def _inet4(chance: random.Random) -> Value:
    return _plain(".".join(str(chance.choice((0, 255, chance.randrange(256)))) for _ in range(4)))


def _floats_hex(value: list[float]) -> str:
    return struct.pack(f"<{len(value)}f", *value).hex().upper()


def _members(names: list[str], *, several: bool) -> Callable[[random.Random], Value]:
    def value(chance: random.Random) -> Value:
        return _plain(
            ",".join(chance.sample(names, chance.randint(0, len(names)))) if several else chance.choice(names)
        )

    return value


def kinds(chance: random.Random, *, mariadb: bool) -> list[Kind]:
    """Return a table's columns: every type once at least, the order and what can differ by chance."""
    found = [
        Kind(name + sign, _integers(bits, unsigned=bool(sign)), known_elsewhere=True)
        for name, bits in (("TINYINT", 8), ("SMALLINT", 16), ("MEDIUMINT", 24), ("INT", 32), ("BIGINT", 64))
        for sign in ("", " UNSIGNED")
    ]
    for precision, scale in (
        (65, 30),
        (38, 0),
        (39, 38 - 8),
        (1, 1),
        (chance.randint(10, 60), chance.randint(0, 10)),
    ):
        found.append(Kind(f"DECIMAL({precision},{scale})", _decimals(precision, scale), known_elsewhere=True))
    found.append(Kind("FLOAT", _floats, "CAST({} AS DOUBLE)", float))
    found.append(Kind("DOUBLE", _doubles, known_elsewhere=True))
    found += [
        Kind(f"BIT({bits})", lambda chance, bits=bits: _plain(chance.getrandbits(bits)), "{}+0")
        for bits in (1, 64, chance.randint(2, 63))
    ]
    found.append(
        Kind(
            "YEAR",
            lambda chance: _plain(chance.choice((0, 1901, 2155, chance.randint(1901, 2155)))),
        )
    )
    found.append(Kind("DATE", _dates, known_elsewhere=True))
    for digits in range(7):
        found.append(Kind(f"TIME({digits})", _times))
        found.append(Kind(f"DATETIME({digits})", _datetimes, known_elsewhere=True))
        found.append(Kind(f"TIMESTAMP({digits}) NULL", _timestamps))
    for charset in " ".join(CHARSETS).split():
        size = chance.choice((1, 10, 63))
        found.append(Kind(f"CHAR({size}) CHARACTER SET {charset}", _texts(size)))
        found.append(
            Kind(
                f"VARCHAR({4 * size}) CHARACTER SET {charset}",
                _texts(4 * size),
                known_elsewhere=charset == "utf8mb4",
            )
        )
    for name in ("TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT"):
        found.append(
            Kind(f"{name} CHARACTER SET {chance.choice(('utf8mb4', 'latin1', 'utf16'))}", _texts(60))
        )
    size = chance.randint(1, 60)
    found += [
        Kind(f"BINARY({size})", _bytes(size), typed=bytes),
        Kind("VARBINARY(300)", _bytes(300), typed=bytes),
    ]
    found += [Kind(name, _bytes(250), typed=bytes) for name in ("TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB")]
    names = ["x", "ü", "日本", "it''s"][: chance.randint(1, 4)] + [
        f"m{number}" for number in range(chance.choice((0, 60)))
    ]
    listed = "','".join(names)
    plain = [name.replace("''", "'") for name in names]
    found.append(
        Kind(f"ENUM('{listed}') CHARACTER SET utf8mb4", _members(plain, several=False), known_elsewhere=True)
    )
    found.append(
        Kind(
            f"SET('{listed}') CHARACTER SET {chance.choice(('utf8mb4', 'gbk'))}",
            _members(plain, several=True),
        )
    )
    found.append(Kind("GEOMETRY", _geometries("ST_GeomFromText"), typed=bytes))
    found.append(Kind("JSON", _json))
    found += _of_mariadb() if mariadb else _of_mysql()
    chance.shuffle(found)
    return found


def _of_mysql() -> list[Kind]:
    return [
        Kind("JSON", _opaque_json),
        Kind("VECTOR(8)", _vectors, "HEX({})", _floats_hex),
        Kind("VARCHAR(40) CHARACTER SET gb18030", _texts(40)),
    ]


def _of_mariadb() -> list[Kind]:
    compressed = [
        Kind(f"{name} COMPRESSED", _bytes(250), typed=bytes) for name in ("TINYBLOB", "BLOB", "LONGBLOB")
    ]
    return [
        *compressed,
        Kind("VARCHAR(200) COMPRESSED CHARACTER SET utf8mb4", _texts(3)),
        Kind(
            "VARBINARY(900) COMPRESSED",
            lambda chance: _plain(chance.randbytes(3) * chance.randint(0, 300)),
            typed=bytes,
        ),
        Kind("TEXT COMPRESSED CHARACTER SET latin1", lambda chance: _plain("aé" * chance.randint(0, 3000))),
        Kind("UUID", _uuids),
        Kind("INET4", _inet4),
        Kind("INET6", _inet6),
    ]
