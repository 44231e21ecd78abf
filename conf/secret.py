"""Secrets: passwords and tokens come from the environment or from a file, never from an instance file.

They are read once, together with the settings, and are sent with them: a shard actor on another machine needs
neither the variable nor the file. A command that needs only some secrets names their owners. The others are
not read, and may be missing where the command runs.
"""

from __future__ import annotations

import os
from enum import Enum, auto
from pathlib import Path

from pydantic import SecretStr, ValidationInfo

from canal_group.conf.value import is_variable, unfit

#: largest file of a secret, bytes
FILE_BYTES_MAX = 64 << 10

_IN_VARIABLE = "name an environment variable that holds the secret"


class Owner(Enum):
    """The other side that a secret is sent to, or that sends it."""

    #: servers that shards read, or where they look up tables; shards themselves, for the filter's salt
    SOURCE = auto()
    #: the ZooKeeper of the coordination
    COORDINATION = auto()
    #: clients of the gateway
    GATEWAY = auto()
    #: queues that changes are published to, and the gateway that they are read from
    OUTPUT = auto()


EVERY_OWNER = frozenset(Owner)


class UnreadSecret(SecretStr):
    """A secret that is configured but was not read: the command that loaded the settings does not need it."""

    def __init__(self) -> None:
        super().__init__("")

    def get_secret_value(self) -> str:
        """Raise RuntimeError: the settings were loaded without this secret."""
        raise RuntimeError("The settings were loaded without this secret.")


def read_secret(
    owner: Owner, name: str, env: str | None, file: Path | None, info: ValidationInfo
) -> SecretStr | None:
    """Return the secret that the settings `<name>_env` and `<name>_file` point to; None if neither is given.

    Line ends at the end of the file are not part of the secret.

    Args:
        owner: its owner.
        name: its name in the settings.
        env: environment variable that holds it.
        file: file that holds nothing but the secret.
        info: its context's `secrets` has the owners whose secrets are read; without it all are. For others an
            `UnreadSecret` is returned.

    Raises:
        PydanticCustomError: both are given, `env` is not a variable name, or the variable or file is missing,
            unreadable or empty.
    """
    if env is not None and file is not None:
        raise unfit(
            f"be the only source of the {name}", key=f"{name}_file", found=f"`{name}_env` is given too"
        )
    if env is None and file is None:
        return None
    if env is not None:
        _check_variable(f"{name}_env", env)
    if owner not in (info.context or {}).get("secrets", EVERY_OWNER):
        return UnreadSecret()
    if env is not None:
        return _from_environment(f"{name}_env", env)
    assert file is not None
    return _from_file(f"{name}_file", file)


def _check_variable(key: str, variable: str) -> None:
    if not is_variable(variable):
        # The value may be the secret itself, so the message does not repeat it.
        raise unfit(_IN_VARIABLE, key=key, found="is not a variable name")


def _from_environment(key: str, variable: str) -> SecretStr:
    secret = os.environ.get(variable)
    if not secret:
        raise unfit(_IN_VARIABLE, key=key, found=f"{variable} is {'not set' if secret is None else 'empty'}")
    return SecretStr(secret)


def _from_file(key: str, file: Path) -> SecretStr:
    expected = "name a file that holds the secret"
    try:
        with file.open("rb") as opened:
            content = opened.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise unfit(expected, key=key, found=f"{file} cannot be read ({error.strerror})") from None
    if len(content) > FILE_BYTES_MAX:
        raise unfit(expected, key=key, found=f"{file} is longer than {FILE_BYTES_MAX} bytes")
    try:
        secret = content.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise unfit(expected, key=key, found=f"{file} is not UTF-8 text") from None
    if not secret:
        raise unfit(expected, key=key, found=f"{file} is empty")
    return SecretStr(secret)
