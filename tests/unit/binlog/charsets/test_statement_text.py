"""Texts of statements: bytes of a client, by its charset, as its server's lexer cuts them."""

from __future__ import annotations

import pytest

from canal_group.binlog.charsets.statement_text import is_whole, printable, statement_text
from canal_group.binlog.schema.catalog import Catalog
from canal_group.binlog.schema.definition import TableDefinition, UnknownTable
from canal_group.binlog.schema.statement import ServerVersion, Statement

BIG5, LATIN1, SWE7, ASCII, UJIS, SJIS, GBK, ARMSCII8, UTF8MB4, BINARY = 1, 8, 10, 11, 12, 13, 28, 32, 45, 63
MYSQL = ServerVersion.parse("9.7.4")


@pytest.mark.parametrize(
    ("data", "collation", "text"),
    [
        ("`café`".encode("cp1252"), LATIN1, "`café`"),
        ("`café`".encode(), None, "`café`"),
        ("`café`".encode(), BINARY, "`café`"),
        # The second byte of each is that of a backslash, or of a backquote.
        ("'ソ'".encode("shift_jis"), SJIS, "'ソ'"),
        ("'功'".encode("big5"), BIG5, "'功'"),
        (b"'\x81\x60'", GBK, "'乣'"),
        # ETEN's characters, which Python has in another codec only.
        (b"'\xf9\xd6'", BIG5, "'碁'"),
        # A character that the servers take for a backslash, which the lexer does not.
        (b"'\x81\x5f'", SJIS, "'\udc81\udc5f'"),
        (b"'\xa1\xc0'", UJIS, "'\udca1\udcc0'"),
        # A parenthesis of armscii8 closes nothing, and swe7 has letters where ASCII has brackets.
        (b"(a\xa5\xa4)", ARMSCII8, "(a\udca5\udca4)"),
        (b"`[a]`", SWE7, "`\udc5ba\udc5d`"),
        # Bytes that are not text in the charset.
        (b"'\xe9t\xe9'", UTF8MB4, "'\udce9t\udce9'"),
        (b"'\xe9'", ASCII, "'\udce9'"),
        (b"'\x81", GBK, "'\udc81"),
    ],
)
def test_bytes_of_a_client(data, collation, text):
    assert statement_text(data, collation) == text


def test_undecodable_bytes_are_shown_as_numbers():
    text = statement_text(b"a \xe9 b", UTF8MB4)
    assert not is_whole(text)
    assert printable(text) == r"a \xe9 b"
    assert is_whole("é")
    assert printable("é") == "é"


def created(data, client=UTF8MB4, connection=None):
    catalog = Catalog(UTF8MB4)
    catalog.set_schema("app", UTF8MB4)
    sql = statement_text(data, client)
    catalog.apply(
        Statement(sql, "app", MYSQL, client_collation=client, connection_collation=connection or client)
    )
    return catalog.table("app", "t")


def test_a_name_or_a_value_of_unknown_characters_is_not_known():
    for sql in (b"CREATE TABLE t (`\xe9` INT)", b"CREATE TABLE t (a ENUM('\xe9'))"):
        table = created(sql)
        assert isinstance(table, UnknownTable)
        assert "bytes that are not characters of utf8mb4, the client's charset" in table.reason


def test_a_comment_or_a_default_of_unknown_characters_does_no_harm():
    table = created(
        b"CREATE TABLE t (a INT COMMENT '\xe9', b VARCHAR(9) DEFAULT '\xe9') COMMENT '\xe9' /* \xe9 */"
    )
    assert isinstance(table, TableDefinition)
    assert [column.name for column in table.columns] == ["a", "b"]


@pytest.mark.parametrize(("charset", "value"), [("latin1", "Ã©"), ("utf8mb4", "é"), ("cp1251", "Г©")])
def test_a_value_of_a_binary_connection_is_read_in_its_column(charset, value):
    """The server converts nothing then: the column has the bytes."""
    table = created(f"CREATE TABLE t (a ENUM('é') CHARACTER SET {charset})".encode(), BINARY)
    assert table.columns[0].values == (value,)


def test_a_value_passes_through_the_connections_charset():
    """What that lacks becomes a question mark, whatever the column could hold."""
    table = created("CREATE TABLE t (a ENUM('é', '表') CHARACTER SET utf8mb4)".encode(), UTF8MB4, LATIN1)
    assert table.columns[0].values == ("é", "?")
