"""Conf files: canal.properties and the instances' files, as they are named, or as a folder holds them.

canal names an instance as its folder. Its container names one by `canal.destinations`, and a folder that is
mounted or copied may still have the name `example`: a single instance has the single name that is there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from canal_group.conf.sentence import config_error, shown
from canal_group.conf.value import is_name
from canal_group.merge.file_name import file_name
from canal_group.programs.migration.canal_files.properties import (
    Properties,
    read_environment,
    read_properties,
)
from canal_group.programs.migration.canal_files.view import View

SERVER: Final = "canal.properties"
#: the name that canal ships: whoever names an instance otherwise may leave it there
_SHIPPED: Final = "example"
INSTANCE: Final = "instance.properties"
#: instances of a folder
INSTANCES_MAX: Final = 1_000
_SOURCE = re.compile(r"canal\.instance\.master\d*\.address")
_RANGE = re.compile(r"(?P<before>[^{}]*)\{(?P<first>\d{1,6})-(?P<last>\d{1,6})\}(?P<after>[^{}]*)")


def read_conf(paths: Sequence[Path]) -> tuple[Properties | None, list[View]]:
    """Return canal.properties, if it is there, and each instance, in the order of the paths.

    Args:
        paths: files, and folders as canal's `conf`: its canal.properties, and a folder for each instance.

    Raises:
        ConfigError: a file cannot be read, or is neither of both; an instance has no name.
    """
    files = [file for path in paths for file in (_files_of(path) if path.is_dir() else [path])]
    server, instances = _sorted([read_properties(file) for file in files])
    variables = read_environment(os.environ)
    environment = variables if variables.entries else None
    views = [View(each.folder_name, each, server, environment) for each in instances]
    if len(views) == 1:
        views = [replace(views[0], name=_name_of(views[0]))]
    _check_names(views)
    return server, views


def destinations(view: View) -> list[str]:
    """Return the names that canal.properties lists.

    Raises:
        ConfigError: a range in it names too many.
    """
    names = [name.strip() for name in (view.text("canal.destinations") or "").split(",")]
    expression = view.text("canal.destinations.expr")
    match = None if expression is None else _RANGE.fullmatch(expression)
    if match is not None:
        first, last = int(match["first"]), int(match["last"])
        if last - first >= INSTANCES_MAX:
            entry = view.entry_of("canal.destinations.expr")
            raise entry.wrong(f"name at most {INSTANCES_MAX} instances", f"names {last - first + 1}")
        names += [f"{match['before']}{number}{match['after']}" for number in range(first, last + 1)]
    return list(dict.fromkeys(filter(None, names)))


def _name_of(view: View) -> str:
    """Return the name of a single instance: the single one that is listed, unless it is another folder's."""
    names = destinations(view)
    if len(names) != 1 or not is_name(names[0]) or (names[0] == _SHIPPED and is_name(view.name)):
        return view.name
    other = view.own.file.absolute().parent.parent / file_name(names[0]) / INSTANCE
    return view.name if other.exists() else names[0]


def _files_of(folder: Path) -> list[Path]:
    server = [file for file in (folder / SERVER,) if file.is_file()]
    instances = sorted(file for file in folder.glob(f"*/{INSTANCE}") if file.is_file())
    if not instances:
        raise config_error(
            str(folder), "", f"be canal's conf, with a folder for each instance's {INSTANCE}", "has none"
        )
    if len(instances) > INSTANCES_MAX:
        raise config_error(
            str(folder), "", f"have at most {INSTANCES_MAX} instances", f"has {len(instances)}"
        )
    return [*server, *instances]


def _sorted(files: Sequence[Properties]) -> tuple[Properties | None, list[Properties]]:
    """Return canal.properties, and the files of instances, known by name or by the source that they have."""
    instances = [
        each
        for each in files
        if each.file.name == INSTANCE
        or (each.file.name != SERVER and any(map(_SOURCE.fullmatch, each.entries)))
    ]
    others = [each for each in files if each not in instances]
    if not instances:
        raise config_error(
            ", ".join(str(each.file) for each in files),
            "canal.instance.master.address",
            f"be in a file, an {INSTANCE}",
            "is in none",
        )
    if len(others) > 1:
        raise config_error(
            str(others[1].file), "", "be the only one without a source", f"{others[0].file} has none either"
        )
    return (others[0] if others else None), instances


def _check_names(views: Sequence[View]) -> None:
    for view in views:
        if not is_name(view.name):
            raise config_error(
                str(view.own.file),
                "",
                "be in a folder that is named as the instance, as canal requires",
                f"the folder's name is {shown(view.name)}",
            )
        first = next(each for each in views if each.name == view.name)
        if first is not view:
            raise config_error(
                str(view.own.file),
                "",
                "be in a folder of another name",
                f"{first.own.file} is an instance {view.name} too",
            )
