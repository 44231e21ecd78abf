"""References: the words after a foreign key's REFERENCES, which have no meaning for rows."""

from __future__ import annotations

from canal_group.binlog.schema.clauses.words import Words

_ACTIONS = (("RESTRICT",), ("CASCADE",), ("SET", "NULL"), ("SET", "DEFAULT"), ("NO", "ACTION"))


def skip_references(words: Words) -> None:
    """Take the table, its columns and the actions after REFERENCES.

    Raises:
        UnreadableError: an action is unknown.
    """
    words.table_name()
    if words.sees("("):
        words.skip_group()
    if words.skip("MATCH"):
        words.name()
    while words.skip("ON", "DELETE") or words.skip("ON", "UPDATE"):
        if not any(words.skip(*action) for action in _ACTIONS):
            raise words.unexpected("an action of a foreign key should come")
