"""Instance files, one for each destination, perhaps in folders: what they say now, and what that changes.

Rules:
- a file that is wrong changes nothing: what it was before goes on, and the others do not notice;
- one destination has one file. Whoever is served already keeps it, else the first by name;
- settings count, not bytes: an edited comment restarts nothing, a changed password file does;
- shards that are appended or taken out join and leave while it runs; any other change is a restart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from conf.changes import only_shards_differ
from conf.load import load_instance
from conf.sentence import config_error
from conf.settings import InstanceSettings
from merge.errors import ConfigError

#: endings of instance files; all else in a folder is somebody else's
SUFFIXES = frozenset({".yaml", ".yml"})


@dataclass(frozen=True, slots=True)
class Found:
    """What instance files say, by path, in the order of paths."""

    settings: dict[Path, InstanceSettings] = field(default_factory=dict)
    #: what is wrong with the others
    errors: dict[Path, ConfigError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Changes:
    """What has to be done, in this order."""

    stop: tuple[Path, ...] = ()
    #: nothing but shards came or went: they join and leave what runs
    adopt: dict[Path, InstanceSettings] = field(default_factory=dict)
    #: with new settings
    restart: dict[Path, InstanceSettings] = field(default_factory=dict)
    start: dict[Path, InstanceSettings] = field(default_factory=dict)
    #: files that are left aside, with the reason
    refused: dict[Path, ConfigError] = field(default_factory=dict)


def read_file(file: Path, found: Found) -> None:
    """Add what an instance file says, or what is wrong with it, to what was found."""
    try:
        found.settings[file] = load_instance(file)
    except ConfigError as error:
        found.errors[file] = error


def read_folder(folder: Path) -> Found:
    """Read the instance files of a folder; hidden files and other endings are left alone.

    Raises:
        ConfigError: the folder cannot be read.
    """
    try:
        files = sorted(file for file in folder.iterdir() if file.suffix in SUFFIXES and file.is_file())
    except OSError as error:
        raise config_error(
            str(folder), "", "be a readable folder or file", f"is not ({error.strerror})"
        ) from None
    found = Found()
    for file in files:
        if not file.name.startswith("."):
            read_file(file, found)
    return found


def changes(running: Mapping[Path, InstanceSettings], found: Found) -> Changes:
    """Return what has to be done so that what runs becomes what was found.

    Args:
        running: what runs, by file.
        found: what the files say now.
    """
    refused = dict(found.errors)
    kept = {file: running[file] for file in running if file in found.settings or file in found.errors}
    owners = {settings.destination: file for file, settings in kept.items()}
    wanted: dict[Path, InstanceSettings] = {}
    # Who runs speaks first, so that it keeps its destination.
    for file in sorted(found.settings, key=lambda file: (file not in kept, file)):
        settings = found.settings[file]
        owner = owners.setdefault(settings.destination, file)
        if owner == file:
            wanted[file] = settings
        else:
            refused[file] = config_error(
                str(file), "destination", "be one of its own", f"{owner} has '{settings.destination}' too"
            )
    changed = {file: new for file, new in wanted.items() if file in kept and new != running[file]}
    adopt = {file: new for file, new in changed.items() if only_shards_differ(running[file], new)}
    return Changes(
        stop=tuple(file for file in running if file not in kept),
        adopt=adopt,
        restart={file: new for file, new in changed.items() if file not in adopt},
        start={file: new for file, new in wanted.items() if file not in kept},
        refused=refused,
    )
