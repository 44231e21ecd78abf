"""Collations: their numbers by name, and the default of each charset.

MariaDB has more than are listed: the NOPAD variant of a collation, whose number is larger by 1024, and those
of UCA 14, which are numbered by charset, language and sensitivity. `croatian_ci` is the one name that means
another number on MySQL.

Source: `information_schema.COLLATIONS` of MySQL 9.7 and `COLLATION_CHARACTER_SET_APPLICABILITY` of MariaDB
10.11.
"""

from __future__ import annotations

from canal_group.binlog.charsets.charsets import BINARY_COLLATION, charset_of

_NOPAD = 1024
_UCA14 = 2048
_UCA14_CHARSETS = ("utf8mb3", "utf8mb4", "ucs2", "utf16", "utf32")
_UCA14_MARK = "uca1400_"
_UCA14_SENSITIVITIES = ("ai_ci", "ai_cs", "as_ci", "as_cs")
_UCA14_LANGUAGES = (
    "icelandic",
    "latvian",
    "romanian",
    "slovenian",
    "polish",
    "estonian",
    "spanish",
    "swedish",
    "turkish",
    "czech",
    "danish",
    "lithuanian",
    "slovak",
    "spanish2",
    "roman",
    "persian",
    "esperanto",
    "hungarian",
    "sinhala",
    "german2",
)
#: language -> its number, from 0 for none
_UCA14_NUMBERS = {
    "": 0,
    **{name: number for number, name in enumerate(_UCA14_LANGUAGES, start=1)},
    "vietnamese": 23,
    "croatian": 24,
}
#: MySQL's numbers of `croatian_ci`
_CROATIAN_OF_MYSQL = {"utf8mb3": 213, "utf8mb4": 245, "ucs2": 149, "utf16": 122, "utf32": 181}

#: charset -> its collations and their numbers; the names lack the charset's prefix
_COLLATIONS = {
    "armscii8": "general_ci=32 bin=64",
    "ascii": "general_ci=11 bin=65",
    "big5": "chinese_ci=1 bin=84",
    "cp1250": "general_ci=26 czech_cs=34 croatian_ci=44 bin=66 polish_ci=99",
    "cp1251": "bulgarian_ci=14 ukrainian_ci=23 bin=50 general_ci=51 general_cs=52",
    "cp1256": "general_ci=57 bin=67",
    "cp1257": "lithuanian_ci=29 bin=58 general_ci=59",
    "cp850": "general_ci=4 bin=80",
    "cp852": "general_ci=40 bin=81",
    "cp866": "general_ci=36 bin=68",
    "cp932": "japanese_ci=95 bin=96",
    "dec8": "swedish_ci=3 bin=69",
    "eucjpms": "japanese_ci=97 bin=98",
    "euckr": "korean_ci=19 bin=85",
    "gb18030": "chinese_ci=248 bin=249 unicode_520_ci=250",
    "gb2312": "chinese_ci=24 bin=86",
    "gbk": "chinese_ci=28 bin=87",
    "geostd8": "general_ci=92 bin=93",
    "greek": "general_ci=25 bin=70",
    "hebrew": "general_ci=16 bin=71",
    "hp8": "english_ci=6 bin=72",
    "keybcs2": "general_ci=37 bin=73",
    "koi8r": "general_ci=7 bin=74",
    "koi8u": "general_ci=22 bin=75",
    "latin1": (
        "german1_ci=5 swedish_ci=8 danish_ci=15 german2_ci=31 bin=47 general_ci=48 general_cs=49 "
        "spanish_ci=94"
    ),
    "latin2": "czech_cs=2 general_ci=9 hungarian_ci=21 croatian_ci=27 bin=77",
    "latin5": "turkish_ci=30 bin=78",
    "latin7": "estonian_cs=20 general_ci=41 general_cs=42 bin=79",
    "macce": "general_ci=38 bin=43",
    "macroman": "general_ci=39 bin=53",
    "sjis": "japanese_ci=13 bin=88",
    "swe7": "swedish_ci=10 bin=82",
    "tis620": "thai_ci=18 bin=89",
    "ucs2": (
        "general_ci=35 bin=90 unicode_ci=128 icelandic_ci=129 latvian_ci=130 romanian_ci=131 "
        "slovenian_ci=132 polish_ci=133 estonian_ci=134 spanish_ci=135 swedish_ci=136 turkish_ci=137 "
        "czech_ci=138 danish_ci=139 lithuanian_ci=140 slovak_ci=141 spanish2_ci=142 roman_ci=143 "
        "persian_ci=144 esperanto_ci=145 hungarian_ci=146 sinhala_ci=147 german2_ci=148 "
        "croatian_mysql561_ci=149 unicode_520_ci=150 vietnamese_ci=151 general_mysql500_ci=159 "
        "croatian_ci=640 myanmar_ci=641 thai_520_w2=642"
    ),
    "ujis": "japanese_ci=12 bin=91",
    "utf16": (
        "general_ci=54 bin=55 unicode_ci=101 icelandic_ci=102 latvian_ci=103 romanian_ci=104 "
        "slovenian_ci=105 polish_ci=106 estonian_ci=107 spanish_ci=108 swedish_ci=109 turkish_ci=110 "
        "czech_ci=111 danish_ci=112 lithuanian_ci=113 slovak_ci=114 spanish2_ci=115 roman_ci=116 "
        "persian_ci=117 esperanto_ci=118 hungarian_ci=119 sinhala_ci=120 german2_ci=121 "
        "croatian_mysql561_ci=122 unicode_520_ci=123 vietnamese_ci=124 croatian_ci=672 myanmar_ci=673 "
        "thai_520_w2=674"
    ),
    "utf16le": "general_ci=56 bin=62",
    "utf32": (
        "general_ci=60 bin=61 unicode_ci=160 icelandic_ci=161 latvian_ci=162 romanian_ci=163 "
        "slovenian_ci=164 polish_ci=165 estonian_ci=166 spanish_ci=167 swedish_ci=168 turkish_ci=169 "
        "czech_ci=170 danish_ci=171 lithuanian_ci=172 slovak_ci=173 spanish2_ci=174 roman_ci=175 "
        "persian_ci=176 esperanto_ci=177 hungarian_ci=178 sinhala_ci=179 german2_ci=180 "
        "croatian_mysql561_ci=181 unicode_520_ci=182 vietnamese_ci=183 croatian_ci=736 myanmar_ci=737 "
        "thai_520_w2=738"
    ),
    "utf8mb3": (
        "general_ci=33 tolower_ci=76 bin=83 unicode_ci=192 icelandic_ci=193 latvian_ci=194 "
        "romanian_ci=195 slovenian_ci=196 polish_ci=197 estonian_ci=198 spanish_ci=199 swedish_ci=200 "
        "turkish_ci=201 czech_ci=202 danish_ci=203 lithuanian_ci=204 slovak_ci=205 spanish2_ci=206 "
        "roman_ci=207 persian_ci=208 esperanto_ci=209 hungarian_ci=210 sinhala_ci=211 german2_ci=212 "
        "croatian_mysql561_ci=213 unicode_520_ci=214 vietnamese_ci=215 general_mysql500_ci=223 "
        "croatian_ci=576 myanmar_ci=577 thai_520_w2=578"
    ),
    "utf8mb4": (
        "general_ci=45 bin=46 unicode_ci=224 icelandic_ci=225 latvian_ci=226 romanian_ci=227 "
        "slovenian_ci=228 polish_ci=229 estonian_ci=230 spanish_ci=231 swedish_ci=232 turkish_ci=233 "
        "czech_ci=234 danish_ci=235 lithuanian_ci=236 slovak_ci=237 spanish2_ci=238 roman_ci=239 "
        "persian_ci=240 esperanto_ci=241 hungarian_ci=242 sinhala_ci=243 german2_ci=244 "
        "croatian_mysql561_ci=245 unicode_520_ci=246 vietnamese_ci=247 0900_ai_ci=255 "
        "de_pb_0900_ai_ci=256 is_0900_ai_ci=257 lv_0900_ai_ci=258 ro_0900_ai_ci=259 sl_0900_ai_ci=260 "
        "pl_0900_ai_ci=261 et_0900_ai_ci=262 es_0900_ai_ci=263 sv_0900_ai_ci=264 tr_0900_ai_ci=265 "
        "cs_0900_ai_ci=266 da_0900_ai_ci=267 lt_0900_ai_ci=268 sk_0900_ai_ci=269 es_trad_0900_ai_ci=270 "
        "la_0900_ai_ci=271 eo_0900_ai_ci=273 hu_0900_ai_ci=274 hr_0900_ai_ci=275 vi_0900_ai_ci=277 "
        "0900_as_cs=278 de_pb_0900_as_cs=279 is_0900_as_cs=280 lv_0900_as_cs=281 ro_0900_as_cs=282 "
        "sl_0900_as_cs=283 pl_0900_as_cs=284 et_0900_as_cs=285 es_0900_as_cs=286 sv_0900_as_cs=287 "
        "tr_0900_as_cs=288 cs_0900_as_cs=289 da_0900_as_cs=290 lt_0900_as_cs=291 sk_0900_as_cs=292 "
        "es_trad_0900_as_cs=293 la_0900_as_cs=294 eo_0900_as_cs=296 hu_0900_as_cs=297 hr_0900_as_cs=298 "
        "vi_0900_as_cs=300 ja_0900_as_cs=303 ja_0900_as_cs_ks=304 0900_as_ci=305 ru_0900_ai_ci=306 "
        "ru_0900_as_cs=307 zh_0900_as_cs=308 0900_bin=309 nb_0900_ai_ci=310 nb_0900_as_cs=311 "
        "nn_0900_ai_ci=312 nn_0900_as_cs=313 sr_latn_0900_ai_ci=314 sr_latn_0900_as_cs=315 "
        "bs_0900_ai_ci=316 bs_0900_as_cs=317 bg_0900_ai_ci=318 bg_0900_as_cs=319 gl_0900_ai_ci=320 "
        "gl_0900_as_cs=321 mn_cyrl_0900_ai_ci=322 mn_cyrl_0900_as_cs=323 croatian_ci=608 myanmar_ci=609 "
        "thai_520_w2=610"
    ),
}
_NUMBERS = {
    f"{charset}_{name}": int(number)
    for charset, collations in _COLLATIONS.items()
    for name, _, number in (collation.partition("=") for collation in collations.split())
} | {"binary": BINARY_COLLATION}
#: charset -> number of the default collation, where the default is not `general_ci`
_DEFAULTS = {
    "big5": 1,
    "binary": BINARY_COLLATION,
    "cp932": 95,
    "dec8": 3,
    "eucjpms": 97,
    "euckr": 19,
    "gb18030": 248,
    "gb2312": 24,
    "gbk": 28,
    "hp8": 6,
    "latin1": 8,
    "latin5": 30,
    "sjis": 13,
    "swe7": 10,
    "tis620": 18,
    "ujis": 12,
}
_UTF8MB4_0900 = 255
#: the versions that changed the default of utf8mb4; of MariaDB, that of all charsets of Unicode
_CHANGED_IN_MYSQL = (8, 0)
_CHANGED_IN_MARIADB = (11, 5)


def collation_number(name: str, *, mariadb: bool, charset: str = "") -> int | None:
    """Return a collation's number; None if the name is unknown.

    Args:
        name: in any case; `utf8_` stands for `utf8mb3_`.
        mariadb: whether it is a MariaDB server's.
        charset: what MariaDB's names without a charset refer to, such as `uca1400_ai_ci`.
    """
    name = name.lower()
    if name.startswith("utf8_"):
        name = "utf8mb3_" + name.removeprefix("utf8_")
    if not mariadb:
        own, _, rest = name.partition("_")
        return (
            _CROATIAN_OF_MYSQL.get(own)
            if rest == "croatian_ci" and own in _CROATIAN_OF_MYSQL
            else _NUMBERS.get(name)
        )
    if name.startswith(_UCA14_MARK):
        name = f"{charset}_{name}"
    if _UCA14_MARK in name:
        return _uca14_number(name)
    if name in _NUMBERS:
        return _NUMBERS[name]
    padded = _NUMBERS.get(name.replace("_nopad_", "_"))
    return padded + _NOPAD if padded is not None and "_nopad_" in name else None


def _uca14_number(name: str) -> int | None:
    charset, _, rest = name.partition("_" + _UCA14_MARK)
    for sensitivity, text in enumerate(_UCA14_SENSITIVITIES):
        if rest == text or rest.endswith("_" + text):
            language = rest[: -len(text)].rstrip("_")
            nopad = language == "nopad" or language.endswith("_nopad")
            language = language.removesuffix("nopad").rstrip("_")
            if charset not in _UCA14_CHARSETS or language not in _UCA14_NUMBERS:
                return None
            number = _UCA14_NUMBERS[language] * 8 + nopad * 4 + sensitivity
            return _UCA14 + 256 * _UCA14_CHARSETS.index(charset) + number
    return None


def default_collation(charset: str, *, mariadb: bool, version: tuple[int, int]) -> int | None:
    """Return the number of a charset's default collation; None if the charset is unknown.

    Args:
        charset: in lower case, and not `utf8`, whose meaning a setting decides.
        mariadb: whether it is a MariaDB server's.
        version: the server's first two numbers.
    """
    if mariadb and version >= _CHANGED_IN_MARIADB and charset in _UCA14_CHARSETS:
        return _uca14_number(f"{charset}_uca1400_ai_ci")
    if charset == "utf8mb4" and not mariadb and version >= _CHANGED_IN_MYSQL:
        return _UTF8MB4_0900
    return _DEFAULTS.get(charset, _NUMBERS.get(f"{charset}_general_ci"))


def bin_collation(collation: int) -> int:
    """Return the collation of a collation's charset that compares by code, which BINARY asks for."""
    charset = charset_of(collation).name
    return BINARY_COLLATION if charset == "binary" else _NUMBERS[f"{charset}_bin"]
