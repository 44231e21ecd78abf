"""Entry points: how plug-ins are found, by a group and a name. None is imported before settings name it."""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from canal_group.conf.value import Settings
from canal_group.merge.errors import ConfigError


class Group(StrEnum):
    """What plug-ins can add; the value is the group of their entry points."""

    OUTPUTS = "canal_group.outputs"
    PROCESSING = "canal_group.processing"
    STORES = "canal_group.stores"


#: group -> the class that a module has besides SETTINGS
CLASS = {Group.OUTPUTS: "SINK", Group.PROCESSING: "FUNCTION", Group.STORES: "STORE"}


def names(group: Group) -> list[str]:
    """Return the names of a group's plug-ins that are installed."""
    return sorted({each.name for each in entry_points(group=group)})


def installed(group: Group) -> str:
    """Return the names of a group's plug-ins, for messages."""
    return f"installed plug-ins of {group}: {', '.join(names(group)) or 'none'}"


def load(group: Group, name: str) -> Any:
    """Return the module of a plug-in, which is imported.

    Raises:
        ConfigError: there is none, or two; it cannot be imported, or lacks what its group asks for.
    """
    found = [each for each in entry_points(group=group) if each.name == name]
    if not found:
        raise ConfigError(
            f"There is no plug-in {name!r} on this machine ({installed(group)}).",
            hint="Install its package into the environment of every process that reads the settings.",
        )
    if len(found) > 1:
        packages = " and ".join(sorted(map(_package, found)))
        raise ConfigError(
            f"Plug-in {name!r} of {group} is in two packages: {packages}.", hint="Uninstall one of them."
        )
    title = f"Plug-in {name!r} of {group}, from {_package(found[0])},"
    try:
        module = found[0].load()
    except Exception as error:
        raise ConfigError(
            f"{title} cannot be imported: {type(error).__name__}: {error}.",
            hint=f"Its entry point is {found[0].value!r}.",
        ) from error
    own = getattr(module, "SETTINGS", None)
    if not (isinstance(own, type) and issubclass(own, Settings)):
        raise ConfigError(f"{title} has no SETTINGS that inherit canal_group.conf.value.Settings.")
    if not isinstance(getattr(module, CLASS[group], None), type):
        raise ConfigError(f"{title} has no class {CLASS[group]}.")
    return module


def refuse_a_namesake(group: Group, built_in: str) -> None:
    """Return if no plug-in has the name of what is built in.

    Raises:
        ConfigError: one has. Which of the two the settings mean cannot be told.
    """
    found = _of_process(group).get(built_in)
    if found is not None:
        raise ConfigError(
            f"{built_in!r} is built in, and a plug-in of {group} in {_package(found)} has the same name.",
            hint="Give that another name, or uninstall it.",
        )


@lru_cache
def _of_process(group: Group) -> dict[str, EntryPoint]:
    """Return the entry points of when the process asked first: each search reads all that is installed."""
    return {each.name: each for each in entry_points(group=group)}


def _package(found: EntryPoint) -> str:
    return "a package without a name" if found.dist is None else f"{found.dist.name} {found.dist.version}"
