"""Instance files, one for each destination, possibly in folders: read them, and find what changed.

Rules:
- an invalid file changes nothing: its instance keeps its settings, and the others are not affected;
- one destination has one file: the file that is served already, or else the first by name;
- files that share a listener agree on it; one that does not changes nothing, and the others go on;
- settings are compared, not bytes: an edited comment restarts nothing, a changed password file restarts;
- shards that are appended or removed join and leave while the instance runs; any other change is a restart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from canal_group.conf.changes import only_shards_differ
from canal_group.conf.load import load_instance
from canal_group.conf.sentence import config_error
from canal_group.conf.server.server_file import SERVER_FILE
from canal_group.conf.server.shared_listeners import check_together
from canal_group.conf.settings import InstanceSettings
from canal_group.merge.errors import ConfigError

#: file name suffixes of instance files; other files in a folder are ignored
SUFFIXES = frozenset({".yaml", ".yml"})


@dataclass(frozen=True, slots=True)
class FolderContent:
    """Settings of instance files by path, in the order of paths."""

    settings: dict[Path, InstanceSettings] = field(default_factory=dict)
    #: errors of the invalid files
    errors: dict[Path, ConfigError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes to apply, in this order."""

    stop: tuple[Path, ...] = ()
    #: only shards changed: they join and leave the running instance
    adopt: dict[Path, InstanceSettings] = field(default_factory=dict)
    #: to restart with new settings
    restart: dict[Path, InstanceSettings] = field(default_factory=dict)
    start: dict[Path, InstanceSettings] = field(default_factory=dict)
    #: files that are not used, with the reason
    refused: dict[Path, ConfigError] = field(default_factory=dict)


def read_file(file: Path, content: FolderContent) -> None:
    """Add the settings of an instance file, or its error, to `content`."""
    try:
        content.settings[file] = load_instance(file)
    except ConfigError as error:
        content.errors[file] = error


def read_folder(folder: Path) -> FolderContent:
    """Read the instance files of a folder; hidden files and files with other suffixes are ignored.

    The server's file is read with each of them.

    Raises:
        ConfigError: the folder cannot be read.
    """
    try:
        files = sorted(file for file in folder.iterdir() if file.suffix in SUFFIXES and file.is_file())
    except OSError as error:
        raise config_error(
            str(folder), "", "be a readable folder or file", f"is not ({error.strerror})"
        ) from None
    content = FolderContent()
    for file in files:
        if not file.name.startswith(".") and file.name != SERVER_FILE:
            read_file(file, content)
    return content


def changes(running: Mapping[Path, InstanceSettings], content: FolderContent) -> Changes:
    """Return the changes that bring the running instances to the settings that were found.

    Args:
        running: settings of the running instances, by file.
        content: settings of the files now.
    """
    refused = dict(content.errors)
    current = {file: running[file] for file in running if file in content.settings or file in content.errors}
    owners = {settings.destination: file for file, settings in current.items()}
    targets: dict[Path, InstanceSettings] = {}
    # Files of running instances come first, so that a running instance keeps its destination.
    for file in sorted(content.settings, key=lambda file: (file not in current, file)):
        settings = content.settings[file]
        owner = owners.setdefault(settings.destination, file)
        if owner == file:
            targets[file] = settings
        else:
            refused[file] = config_error(
                str(file), "destination", "be unique", f"{owner} has '{settings.destination}' too"
            )
    for file, error in _refused_together(current, targets).items():
        refused[file] = error
        del targets[file]
    changed = {file: new for file, new in targets.items() if file in current and new != running[file]}
    adopt = {file: new for file, new in changed.items() if only_shards_differ(running[file], new)}
    return Changes(
        stop=tuple(file for file in running if file not in current),
        adopt=adopt,
        restart={file: new for file, new in changed.items() if file not in adopt},
        start={file: new for file, new in targets.items() if file not in current},
        refused=refused,
    )


def _refused_together(
    running: Mapping[Path, InstanceSettings], targets: Mapping[Path, InstanceSettings]
) -> dict[Path, ConfigError]:
    """Return the targets that cannot be served together with the others, with the reason.

    One that is refused goes on with its running settings, which others then have to agree with.
    """
    refused: dict[Path, ConfigError] = {}
    while True:
        taken = {
            file: settings
            for file, settings in running.items()
            if file in refused or targets.get(file, settings) == settings
        }
        found = dict(refused)
        for file, settings in targets.items():
            if file in taken or file in refused:
                continue
            try:
                check_together(file, settings, taken)
            except ConfigError as error:
                found[file] = error
            else:
                taken[file] = settings
        if found == refused:
            return refused
        refused = found
