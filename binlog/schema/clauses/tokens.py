"""Tokens: a statement's words, names, texts, numbers and symbols, as the servers' lexers cut it.

Comments are left out. Executable comments (`/*!80023 ... */`, `/*M!100200 ... */`) are part of the statement
if the server executes them, else they are comments as well.

This is the only lexer of a source's SQL. It is compiled (`canal_group.binlog.native.sql_lexer`): a statement
may have megabytes, and each character is read once.

Rules: "Lexical Structure" and "Comments" in MySQL's reference manual, "Comment Syntax" in MariaDB's.
"""

from __future__ import annotations

from canal_group.binlog.native.sql_lexer import Kind, Lexer, Token, UnreadableError
from canal_group.binlog.schema.statement import Statement

__all__ = ["Kind", "Lexer", "Token", "UnreadableError", "tokens_of"]


def tokens_of(statement: Statement) -> list[Token]:
    """Return a statement's tokens; the last one is of kind END.

    Raises:
        UnreadableError: a quote or a comment has no end.
    """
    lexer = statement.lexer()
    tokens = [lexer.next()]
    while tokens[-1].kind is not Kind.END:
        tokens.append(lexer.next())
    return tokens
