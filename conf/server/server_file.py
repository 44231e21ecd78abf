"""The server's file: `server.yaml` beside instance files has the settings that all of them share.

    gateway: {host: 0.0.0.0, ssl: {...}, clients: [...]}
    canal: {}
    coordination: {kind: zookeeper, hosts: 'zk1:2181'}

It may have every key of an instance file but those that make an instance: `destination` and `shards`. An
instance file's values go before the server's, and these before the preset's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from canal_group.conf.document import read_document
from canal_group.conf.sentence import config_error, unknown_key
from canal_group.conf.settings import InstanceSettings
from canal_group.merge.errors import ConfigError

#: its name; a file that is called so is not an instance file
SERVER_FILE: Final = "server.yaml"
#: keys that make an instance
_OWN: Final = ("destination", "shards")
_PART = re.compile(r"[^.\[\]]+")


@dataclass(frozen=True, slots=True)
class ServerFile:
    """The content of a server's file."""

    #: path of the server's file, for messages; empty: no such file
    source: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)

    def source_of(self, key: str, own: Mapping[str, Any], own_source: str) -> str:
        """Return the file that a setting comes from: the one with most of its path, else the instance's.

        Args:
            key: path of the setting.
            own: content of the instance file.
            own_source: path of the instance file.
        """
        path = _PART.findall(key)
        return self.source if _depth(self.values, path) > _depth(own, path) else own_source


NO_SERVER_FILE: Final = ServerFile()


def read_server_file(folder: Path) -> ServerFile:
    """Return the server's file of a folder; an empty one if there is none.

    Raises:
        ConfigError: it cannot be read, or has a key that it may not have.
    """
    path = folder / SERVER_FILE
    if not path.exists() and not path.is_symlink():
        return NO_SERVER_FILE
    values = read_document(path)
    known = [name for name in (*InstanceSettings.model_fields, "preset") if name not in _OWN]
    for key in values:
        if key in _OWN:
            raise not_an_instance(path, key)
        if key not in known:
            raise unknown_key(str(path), key, known)
    return ServerFile(str(path), values)


def not_an_instance(path: str | Path, key: str = "destination") -> ConfigError:
    """Return the error of a server's file that is taken for an instance file, or has one of its keys."""
    return config_error(
        str(path), key, "be in an instance file", f"{SERVER_FILE} has what all instance files beside it share"
    )


def _depth(values: object, path: list[str]) -> int:
    """Return how many parts of a path lead to something."""
    for depth, part in enumerate(path):
        if isinstance(values, Mapping) and part in values:
            values = values[part]
        elif isinstance(values, list) and part.isdecimal() and int(part) < len(values):
            values = values[int(part)]
        else:
            return depth
    return len(path)
