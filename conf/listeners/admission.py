"""Admission: what the definition of a shard that comes over the gateway may name: files, programs, secrets.

An instance file belongs to this machine; a command comes from a client. A command must not make the server
read a file, run a program or use a secret that the instance file does not name for that purpose. A password
may be used only for the servers that are named for it. Any other server could relay the challenge of a source
to us, and log in there with our answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from canal_group.conf.login_settings import SslSettings
from canal_group.conf.sentence import config_error
from canal_group.conf.settings import InstanceSettings
from canal_group.conf.shard_settings import ShardSettings
from canal_group.conf.value import default_of, is_name
from canal_group.merge.errors import ConfigError

#: keys that name a file with a secret, or of TLS
_FILES = ("key_file", "password_file", "ssl.ca", "ssl.cert", "ssl.key")
_PASSWORDS = ("password_env", "password_file", "password_command")
_SSL = SslSettings().model_dump(mode="json")


def admitted(running: InstanceSettings, definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return a command's definition of a shard, with the full paths of its files.

    Raises:
        ConfigError: it names a file or variable that it may not use, or a password of another server.
    """
    limits, used = running.shard_add, _used(running)
    allowed = dict(definition)
    for prefix, key, value in _named(definition):
        if value is None:
            continue
        where = f"{prefix}{key}"
        if key in _PASSWORDS:
            _check_server(running, definition, prefix, key)
        if isinstance(value, str | list) and (key, str(value)) in used:
            continue
        if key == "password_command":
            expected = "be the same as one of a shard of the server's instance file"
            raise config_error(f"shard {definition.get('name')}", where, expected, "it is not")
        if key == "password_env":
            if value not in limits.variables:
                raise _refused(definition, where, "be one of `shard_add.variables`")
        elif key == "files":
            _put(allowed, where, _below(limits.files, value, definition))
        else:
            _put(allowed, where, _in_folder(limits.secrets, value, definition, where))
    return allowed


def _used(running: InstanceSettings) -> set[tuple[str, str]]:
    """Return the files, variables and secrets that the running shards name, as (key, value)."""
    return {
        (key, str(value))
        for shard in running.shards
        for _, key, value in _named(shard.model_dump(mode="json"))
        if value is not None and key != "files"
    }


def _check_server(running: InstanceSettings, definition: Mapping[str, Any], prefix: str, key: str) -> None:
    """Return if a password may be used for the server that a command names.

    Raises:
        ConfigError: the host is not listed, and no shard uses that password for that server.
    """
    server = definition["lookup"] if prefix else definition
    listed = [str(each).rpartition(":")[0].strip("[]") for each in server.get("hosts") or ()]
    hosts = [server["host"], *listed] if "host" in server else listed
    if hosts and all(isinstance(host, str) and running.shard_add.lists(host) for host in hosts):
        return
    dumps = [shard.model_dump(mode="json") for shard in running.shards]
    own = [one for dump in dumps for one in (dump, dump["lookup"]) if one is not None]
    if not any(one[key] == server[key] and _identity(one) == _identity(server) for one in own):
        # The message is the same whether such a file exists or not.
        raise config_error(
            f"shard {definition.get('name')}",
            f"{prefix}{key}",
            "be for a host in `shard_add.hosts` of the server's instance file, or for a server that a shard"
            " there uses it for, with the same `ssl` and `clear_password`",
            "it is not",
        )


def _identity(server: Mapping[str, Any]) -> tuple[str, Any, Any, Any, list[Any]]:
    """Return a server's host and port, its TLS, whether it may ask for clear text, and its other `hosts`."""
    ssl = server.get("ssl")
    port = server.get("port", default_of(ShardSettings, "port"))
    complete = {**_SSL, **ssl} if isinstance(ssl, Mapping) else ssl
    clear = server.get("clear_password", default_of(ShardSettings, "clear_password"))
    return str(server.get("host")).lower(), port, complete, clear, list(server.get("hosts") or ())


def _named(definition: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str, Any]]:
    """Yield each file, variable or secret that a definition names: (key prefix, key, value)."""
    for key in ("password_env", "password_command", *_FILES):
        mapping, _, inner = key.rpartition(".")
        values = definition.get(mapping) if mapping else definition
        if isinstance(values, Mapping):
            yield prefix, key, values.get(inner)
    if prefix:
        return
    yield prefix, "files", definition.get("files")
    lookup = definition.get("lookup")
    if isinstance(lookup, Mapping):
        yield from _named(lookup, "lookup.")


def _put(definition: dict[str, Any], where: str, value: str) -> None:
    """Replace a value at a dotted path; copy the mappings on the way, which others may share."""
    first, _, rest = where.partition(".")
    if not rest:
        definition[first] = value
        return
    definition[first] = dict(definition[first])
    _put(definition[first], rest, value)


def _in_folder(folder: Path | None, value: Any, definition: Mapping[str, Any], where: str) -> str:
    expected = "name a file in `shard_add.secrets`"
    if folder is None or not isinstance(value, str):
        raise _refused(definition, where, expected)
    # A command that has read an instance file on this machine sends the whole path.
    name = value.removeprefix(f"{folder}/")
    file = folder / name
    try:
        inside = is_name(name) and file.resolve(strict=True).is_relative_to(folder.resolve(strict=True))
        if inside and file.is_file():
            return str(file)
    except (OSError, RuntimeError):
        # The message does not tell whether the file is missing or unreadable.
        pass
    raise _refused(definition, where, expected)


def _below(folder: Path | None, value: Any, definition: Mapping[str, Any]) -> str:
    expected = "name files below `shard_add.files`"
    if folder is None or not isinstance(value, str) or "\0" in value:
        raise _refused(definition, "files", expected)
    path = folder / value
    if ".." in path.parts or not path.is_relative_to(folder):
        raise _refused(definition, "files", expected)
    return str(path)


def _refused(definition: Mapping[str, Any], where: str, expected: str) -> ConfigError:
    # The value may be a secret itself, so the message does not repeat it.
    source = f"shard {definition.get('name')}"
    own = "" if where == "files" else ", or the same as a shard of the instance file"
    return config_error(source, where, f"{expected} of the server's instance file{own}", "it does not")
