"""Names that are not case-sensitive: those of columns and indexes, and those of tables on some servers.

Source: collation `utf8mb3_general_ci` of MySQL 9.7 and MariaDB 10.11. Its lower case knows each character by
itself: letters with accents differ from those without, and a sigma at a word's end is another letter.
"""

from __future__ import annotations


def folded(name: str) -> str:
    """Return a name in the server's lower case; names are the same if this is equal."""
    # Two characters stand for one letter in Python, a dotted I, of which the servers have the first.
    return name.lower() if name.isascii() else "".join(char.lower()[0] for char in name)
