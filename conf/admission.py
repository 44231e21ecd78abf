"""Admission: what a shard's definition may name that comes over the gateway.

An instance file is this machine's own; a command is a client's. It may not make us read a file, or use a
secret, that nobody here has named for that. A password is for the servers that are named for it: any other
one could pass on the challenge of a source, and be let in there by our answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from conf.sentence import config_error
from conf.settings import InstanceSettings
from conf.shard_settings import ShardSettings, SslSettings
from conf.value import is_name
from merge.errors import ConfigError

#: keys that name a file with a secret, or of TLS
_FILES = ("password_file", "ssl.ca", "ssl.cert", "ssl.key")
_PASSWORDS = ("password_env", "password_file")
_SSL = SslSettings().model_dump(mode="json")


def admitted(running: InstanceSettings, definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return a command's definition of a shard, its files where they are.

    Raises:
        ConfigError: it names a file or variable that is not for it, or a password that is not for its server.
    """
    chosen, used = running.shard_add, _used(running)
    allowed = dict(definition)
    for prefix, key, value in _named(definition):
        if value is None:
            continue
        where = f"{prefix}{key}"
        if key in _PASSWORDS:
            _check_server(running, definition, prefix, key)
        if isinstance(value, str) and (key, value) in used:
            continue
        if key == "password_env":
            if value not in chosen.variables:
                raise _refused(definition, where, "be one of `shard_add.variables`")
        elif key == "files":
            _put(allowed, where, _below(chosen.files, value, definition))
        else:
            _put(allowed, where, _in_folder(chosen.secrets, value, definition, where))
    return allowed


def _used(running: InstanceSettings) -> set[tuple[str, str]]:
    """Return what the shards that run name, by key."""
    return {
        (key, str(value))
        for shard in running.shards
        for _, key, value in _named(shard.model_dump(mode="json"))
        if value is not None and key != "files"
    }


def _check_server(running: InstanceSettings, definition: Mapping[str, Any], prefix: str, key: str) -> None:
    """Return if a password may be used where a command wants it to be.

    Raises:
        ConfigError: neither is the host listed, nor does a shard use that password there.
    """
    server = definition["lookup"] if prefix else definition
    host = server.get("host")
    if isinstance(host, str) and running.shard_add.lists(host):
        return
    dumps = [shard.model_dump(mode="json") for shard in running.shards]
    own = [one for dump in dumps for one in (dump, dump["lookup"]) if one is not None]
    if not any(one[key] == server[key] and _place(one) == _place(server) for one in own):
        # The same sentence whether there is such a file or not.
        raise config_error(
            f"shard {definition.get('name')}",
            f"{prefix}{key}",
            "be for a host in `shard_add.hosts` of the server's instance file, or, with the same `ssl`, for"
            " the server that a shard there uses it for",
            "it is not",
        )


def _place(server: Mapping[str, Any]) -> tuple[str, Any, Any]:
    """Return where a server is, and who has to prove to be it."""
    ssl = server.get("ssl")
    port = server.get("port", ShardSettings.model_fields["port"].default)
    return str(server.get("host")).lower(), port, {**_SSL, **ssl} if isinstance(ssl, Mapping) else ssl


def _named(definition: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str, Any]]:
    """Yield where a definition names what is of this machine: (what stands before it, key, value)."""
    for key in ("password_env", *_FILES):
        mapping, _, inner = key.rpartition(".")
        place = definition.get(mapping) if mapping else definition
        if isinstance(place, Mapping):
            yield prefix, key, place.get(inner)
    if prefix:
        return
    yield prefix, "files", definition.get("files")
    lookup = definition.get("lookup")
    if isinstance(lookup, Mapping):
        yield from _named(lookup, "lookup.")


def _put(definition: dict[str, Any], where: str, value: str) -> None:
    """Replace a value, and no mapping that others hold."""
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
        # Whether it is not there, or not to be read, is nobody's business.
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
    # What stands there may be a secret itself: it is not repeated.
    source = f"shard {definition.get('name')}"
    own = "" if where == "files" else ", or what a shard of the instance file names"
    return config_error(source, where, f"{expected} of the server's instance file{own}", "it does not")
