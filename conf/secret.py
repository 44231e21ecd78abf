"""Secrets: passwords and tokens stand in the environment or in a file, never in an instance file.

They are read once, when the settings are read, and travel with them: a shard actor on another machine needs
neither the variable nor the file.
"""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import SecretStr

from conf.value import is_variable, unfit

#: a file of a secret is no longer, bytes
FILE_BYTES_MAX = 64 << 10


def read_secret(name: str, env: str | None, file: Path | None) -> SecretStr | None:
    """Return the secret that the settings `<name>_env` and `<name>_file` point to; None if neither is given.

    Line ends at a file's end are no part of the secret.

    Raises:
        PydanticCustomError: both are given, or the variable or file is missing, unreadable or empty.
    """
    if env is not None and file is not None:
        raise unfit(
            f"be the only source of the {name}", key=f"{name}_file", found=f"stands beside `{name}_env`"
        )
    if env is not None:
        return _from_environment(f"{name}_env", env)
    if file is not None:
        return _from_file(f"{name}_file", file)
    return None


def _from_environment(key: str, variable: str) -> SecretStr:
    expected = "name an environment variable that holds the secret"
    if not is_variable(variable):
        # What stands here may be the secret itself: it is not repeated.
        raise unfit(expected, key=key, found="is no name of a variable")
    secret = os.environ.get(variable)
    if not secret:
        raise unfit(expected, key=key, found=f"{variable} is {'not set' if secret is None else 'empty'}")
    return SecretStr(secret)


def _from_file(key: str, file: Path) -> SecretStr:
    expected = "name a file that holds the secret"
    try:
        with file.open("rb") as opened:
            found = opened.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise unfit(expected, key=key, found=f"{file} cannot be read ({error.strerror})") from None
    if len(found) > FILE_BYTES_MAX:
        raise unfit(expected, key=key, found=f"{file} is longer than {FILE_BYTES_MAX} bytes")
    try:
        secret = found.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise unfit(expected, key=key, found=f"{file} is no UTF-8 text") from None
    if not secret:
        raise unfit(expected, key=key, found=f"{file} is empty")
    return SecretStr(secret)
