"""Status variables: the settings of a session, as servers write them and cut anywhere."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canal_group.binlog.formats.byte_cursor import ByteCursor
from canal_group.binlog.formats.query_status import FLAGS, VARIABLES, QueryStatus, parse_status
from canal_group.merge.errors import CorruptEvent

#: as MariaDB 10.11 wrote it, with `explicit_defaults_for_timestamp` on and `sql_mode` ANSI_QUOTES
MARIADB = bytes.fromhex("00000000010104000000000000000603737464042d002d002d00811800000000000000")


def test_the_settings_of_a_session_of_mariadb():
    assert parse_status(MARIADB, mariadb=True) == QueryStatus(
        sql_mode=4,
        client_collation=45,
        connection_collation=45,
        server_collation=45,
        explicit_defaults_for_timestamp=True,
        took_effect=True,
    )
    without = MARIADB.replace(bytes.fromhex("0000000001"), bytes(5), 1)
    assert parse_status(without, mariadb=True).explicit_defaults_for_timestamp is False


def test_the_settings_of_a_session_of_mysql():
    status = b"".join(
        (
            b"\x00" + bytes(4),
            b"\x01" + (1 << 22).to_bytes(8, "little"),
            b"\x06\x03std",
            b"\x04" + bytes([255, 0, 255, 0, 8, 0]),
            b"\x0c\x02one\x00two\x00",
            b"\x10\x00",
            b"\x11" + bytes(8),  # no transaction: it did nothing
            b"\x12\xff\x00",
        )
    )
    assert parse_status(status, mariadb=False) == QueryStatus(
        sql_mode=1 << 22,
        client_collation=255,
        connection_collation=255,
        server_collation=8,
        explicit_defaults_for_timestamp=False,
        utf8mb4_collation=255,
    )


def test_an_alter_in_two_phases_of_mariadb():
    """The first phase has flags only, the second also the number of the first."""
    rest = b"\x83\x01" + bytes([33, 0, 0, 9])
    for flags in (b"\x82\x02", b"\x82\x04" + bytes(8), b"\x82\x08" + bytes(8)):
        assert parse_status(flags + rest, mariadb=True).collations == (0x900,)


def test_default_collations_of_mariadb():
    status = b"\x83\x02" + bytes([33, 0, 0, 9, 45, 0, 1, 9])
    assert parse_status(status, mariadb=True).collations == (0x900, 0x901)


def test_reading_ends_at_a_code_that_is_not_known():
    assert parse_status(b"\x01" + bytes(8) + b"\x7f\x01\x02", mariadb=False) == QueryStatus()


@pytest.mark.parametrize("size", [n for n in range(1, len(MARIADB)) if n not in (5, 14, 19, 26)])
def test_a_value_that_is_cut_is_refused(size):
    with pytest.raises(CorruptEvent):
        parse_status(MARIADB[:size], mariadb=True)


@given(st.binary(max_size=60), st.booleans())
def test_any_bytes_are_settings_or_refused(status, mariadb):
    with suppress(CorruptEvent):
        assert isinstance(parse_status(status, mariadb=mariadb), QueryStatus)


#: the value of each variable that is used: by vendor (whether it is MariaDB) and code
USED = {
    (True, 0): ((1 << 24).to_bytes(4, "little"), {"explicit_defaults_for_timestamp": True}),
    (False, 16): (b"\x01", {"explicit_defaults_for_timestamp": True}),
    (False, 17): ((7).to_bytes(8, "little"), {"took_effect": True}),
    (True, 129): ((7).to_bytes(8, "little"), {"took_effect": True}),
    (False, 18): (b"\xff\x00", {"utf8mb4_collation": 255}),
    (True, 131): (b"\x01" + bytes([33, 0, 0, 9]), {"collations": (0x900,)}),
    **{(mariadb, 1): ((4).to_bytes(8, "little"), {"sql_mode": 4}) for mariadb in (True, False)},
    **{
        (mariadb, 4): (
            bytes([28, 0, 8, 0, 45, 0]),
            {"client_collation": 28, "connection_collation": 8, "server_collation": 45},
        )
        for mariadb in (True, False)
    },
}
#: values of the variables whose size depends on them
SIZED = {
    2: b"\x03std\x00",
    5: b"\x06SYSTEM",
    6: b"\x03std",
    11: b"\x01u\x01h",
    12: b"\x01one\x00",
    130: b"\x02",
}


@pytest.mark.parametrize("mariadb", [False, True])
def test_each_variable_is_used_or_changes_nothing(mariadb):
    """The table says of each what it is for; what is not used is left out, whole."""
    for code, variable in VARIABLES[mariadb].items():
        value, expected = USED.get((mariadb, code), (SIZED.get(code, bytes(8)), {}))
        cursor = ByteCursor(value + b"rest of the status")
        assert variable.take(cursor, QueryStatus()) == QueryStatus(**expected), variable
        if (mariadb, code) in USED or code in SIZED:
            assert cursor.at == len(value), variable
        assert variable.name
        assert variable.meaning
    assert all(FLAGS.values())
