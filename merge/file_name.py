"""File names: the one rule for names from outside that become a part of a path or of an object's key.

A source, a manifest, the listing of an object store and a caller may send any text. A name that passes this
rule stays in the folder that it is joined to. A test refuses each join of another name.
"""

from __future__ import annotations

import re
from typing import Final

from canal_group.merge.errors import UsageError

#: bytes of a name in UTF-8: a file system takes 255, and a temporary file has a longer name than its file
FILE_NAME_BYTES_MAX: Final = 200
#: characters of a refused name that an error shows
_SHOWN_MAX: Final = 100
#: MySQL's @@server_uuid, or MariaDB's @@server_id
_SERVER: Final = re.compile(r"[0-9A-Za-z-]{1,64}")


def is_file_name(name: str) -> bool:
    """Return whether a name can be one part of a path and of an object's key.

    Return False for a name that is empty, `.`, `..` or longer than `FILE_NAME_BYTES_MAX`, or that has a
    slash, a backslash or a character that cannot be printed.
    """
    # What can be printed can be encoded: a lone surrogate cannot be printed.
    is_plain = name.isprintable() and "/" not in name and "\\" not in name and name not in ("", ".", "..")
    return is_plain and len(name.encode()) <= FILE_NAME_BYTES_MAX


def file_name(name: str) -> str:
    """Return a name that joins a path.

    Raises:
        UsageError: see `is_file_name`.
    """
    if not is_file_name(name):
        raise UsageError(
            f"{shown(name)} cannot be the name of a file.",
            hint=f"Expected 1 to {FILE_NAME_BYTES_MAX} printable bytes without a slash or a backslash.",
        )
    return name


def server_identity(text: str) -> str:
    """Return the identity of a server, which begins the names of its folders.

    Raises:
        UsageError: no server has such an identity.
    """
    if not _SERVER.fullmatch(text):
        raise UsageError(
            f"{shown(text)} is not the identity of a server.",
            hint="Expected MySQL's @@server_uuid, or MariaDB's @@server_id.",
        )
    return text


def shown(name: str) -> str:
    """Return a refused name as a message shows it: quoted, in ASCII, cut."""
    return ascii(name if len(name) <= _SHOWN_MAX else f"{name[:_SHOWN_MAX]}...")
