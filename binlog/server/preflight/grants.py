"""Grants: what an account may do, by what SHOW GRANTS says."""

from __future__ import annotations

from typing import NamedTuple

from canal_group.binlog.schema.clauses.tokens import Kind, UnreadableError
from canal_group.binlog.schema.clauses.words import Words
from canal_group.binlog.schema.statement import ServerVersion, Statement

_EVERYWHERE = ("*", ".", "*")


class Grant(NamedTuple):
    """Privileges on one thing."""

    #: in upper case, such as REPLICATION SLAVE; without columns
    privileges: frozenset[str]
    #: whether they are for all tables of all schemas
    everywhere: bool


def read_grant(text: str, server: ServerVersion) -> Grant | None:
    """Return the privileges of a GRANT; None: it grants a role, takes something away, or is not understood.

    Args:
        text: a row of SHOW GRANTS.
        server: its version.
    """
    try:
        words = Words(Statement(text, "", server))
        if not words.skip("GRANT"):
            return None
        privileges = {_privilege(words)}
        while words.skip(","):
            privileges.add(_privilege(words))
        if not words.skip("ON"):
            return None
        return Grant(frozenset(privileges), words.sees(*_EVERYWHERE))
    except UnreadableError:
        return None


def _privilege(words: Words) -> str:
    found = []
    while words.peek().kind is Kind.WORD and not words.sees_any("ON", "TO"):
        found.append(words.take().word)
    if words.sees("("):
        words.skip_group()
    return " ".join(found)
