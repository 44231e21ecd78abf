"""How a statement is cut into tokens, by server and session."""

from __future__ import annotations

import pytest

from canal_group.binlog.schema.clauses.tokens import Kind, UnreadableError, tokens_of
from canal_group.binlog.schema.statement import ServerVersion, SqlMode, Statement

MYSQL = ServerVersion.parse("9.7.4")
MARIADB = ServerVersion.parse("10.11.6-MariaDB-log")


def cut(sql, server=MYSQL, mode=0):
    tokens = [(token.kind, token.text) for token in tokens_of(Statement(sql, "", server, mode))]
    assert tokens.pop() == (Kind.END, "")
    return tokens


@pytest.mark.parametrize(
    ("sql", "kind", "text"),
    [
        ("`a``b`", Kind.NAME, "a`b"),
        ("'a''b'", Kind.TEXT, "a'b"),
        (r"'a''b\n'", Kind.TEXT, "a'b\n"),
        (r"'\n\0\\\'\%\_\x'", Kind.TEXT, "\n\0\\'\\%\\_x"),
        ('"a""b"', Kind.TEXT, 'a"b'),
        ("N'é'", Kind.TEXT, "é"),
        ("x'4A'", Kind.BYTES, "4A"),
        ("0x4", Kind.BYTES, "04"),
        ("b'11'", Kind.BYTES, "03"),
        ("b'11111111'", Kind.BYTES, "ff"),
        ("b'100000001'", Kind.BYTES, "0101"),
        ("b'0000000000000001'", Kind.BYTES, "0001"),
        ("b''", Kind.BYTES, ""),
        ("5a", Kind.WORD, "5a"),
        ("日本", Kind.WORD, "日本"),
        ("\u00a0a", Kind.WORD, "\u00a0a"),
        ("\u3000", Kind.WORD, "\u3000"),
        ("٣", Kind.WORD, "٣"),
        ("1.5e3", Kind.NUMBER, "1.5e3"),
    ],
)
def test_a_token_is_read_as_the_servers_read_it(sql, kind, text):
    assert cut(sql) == [(kind, text)]


@pytest.mark.parametrize(
    "sql", ["a /* x /*/ b", "a /* /* */ b", "a /*/ */ b", "a /*!99999 /* /* */ */ b", "a--\x7fx\nb"]
)
def test_a_comment_ends_where_the_servers_end_it(sql):
    assert cut(sql) == [(Kind.WORD, "a"), (Kind.WORD, "b")]


def test_a_keyword_is_of_ascii_letters():
    kinds = tokens_of(Statement("`add` Add \u0131ndex + 'add'", "", MYSQL))
    assert [token.word for token in kinds] == ["", "ADD", "", "+", "", ""]


def test_a_name_after_a_dot_may_be_digits():
    assert cut("t.1") == [(Kind.WORD, "t"), (Kind.SYMBOL, "."), (Kind.WORD, "1")]


def test_sql_mode_decides_about_quotes_and_escapes():
    assert cut('"a"', mode=SqlMode.ANSI_QUOTES) == [(Kind.NAME, "a")]
    assert cut(r"'a\'", mode=SqlMode.NO_BACKSLASH_ESCAPES) == [(Kind.TEXT, "a\\")]


@pytest.mark.parametrize(
    ("sql", "mysql", "mariadb"),
    [
        ("a /* ' */ -- b\n # c\n d--1", "a d - - 1", "a d - - 1"),
        ("/*!80023 x */ y", "x y", "y"),
        ("/*!50601 x */", "x", "x"),
        ("/*!90704 x */", "x", ""),
        ("/*!90705 x */", "", ""),
        ("/*M! x */", "", "x"),
        ("a */ b", "a * / b", "a * / b"),
        ("/*!100500 x */", "", "x"),
        ("/*M!100500 x */", "", "x"),
        ("/*M!110000 x */", "", ""),
        ("/*! x */", "x", "x"),
        ("/*!999999 a /* b */ c */ d", "d", "d"),
    ],
)
def test_comments_are_left_out_unless_the_server_executes_them(sql, mysql, mariadb):
    assert " ".join(text for _, text in cut(sql)) == mysql
    assert " ".join(text for _, text in cut(sql, MARIADB)) == mariadb


@pytest.mark.parametrize("sql", ["'a", "`a", "/* a", "/*! a", '"'])
def test_what_has_no_end_is_an_error(sql):
    with pytest.raises(UnreadableError):
        cut(sql)


@pytest.mark.parametrize(
    ("text", "mariadb", "number"),
    [
        ("5.5.5-10.4.1-MariaDB", True, 100401),
        ("9.7.4-2", False, 90704),
        ("5.5.55-log", False, 50555),
    ],
)
def test_a_version_is_read(text, mariadb, number):
    version = ServerVersion.parse(text)
    assert (version.mariadb, version.number) == (mariadb, number)


def test_a_text_without_a_version_is_refused():
    with pytest.raises(ValueError, match="not a server's version"):
        ServerVersion.parse("MariaDB")
