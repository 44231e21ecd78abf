"""Kinds of outputs: the modules of `programs/output/sinks/`, each found by its name, and plug-ins."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import Any

from canal_group.conf.plugins.entry_points import Group, load, names, refuse_a_namesake
from canal_group.conf.value import Settings
from canal_group.merge.errors import ConfigError
from canal_group.programs.output import sinks
from canal_group.programs.output.plug_in_sink import PlugInSink
from canal_group.programs.output.sink import Sink


def kinds() -> list[str]:
    """Return the names of all kinds."""
    return sorted({*built_in(), *names(Group.OUTPUTS)})


def built_in() -> list[str]:
    """Return the names of the kinds that no plug-in adds."""
    return sorted(module.name for module in pkgutil.iter_modules(sinks.__path__))


def settings_of(kind: str) -> type[Settings]:
    """Return the settings of a kind; imports its module, and so its client library.

    Raises:
        LookupError: there is no such kind; its argument names the known ones.
        ConfigError: its plug-in cannot be used.
    """
    settings: type[Settings] = _module(kind).SETTINGS
    if "kind" not in settings.model_fields:
        raise ConfigError(f"SETTINGS of plug-in {kind!r} of {Group.OUTPUTS} have no field `kind`.")
    return settings


def sink_of(settings: Settings, name: str) -> Sink:
    """Return a sink that is not open.

    Args:
        settings: of its kind.
        name: of the publisher, see `Sink`.
    """
    kind = str(getattr(settings, "kind", ""))
    made: Sink = _module(kind).SINK(settings, name)
    return made if kind in built_in() else PlugInSink(made, kind)


def _module(kind: str) -> Any:
    if kind in built_in():
        refuse_a_namesake(Group.OUTPUTS, kind)
        return import_module(f"{sinks.__name__}.{kind}")
    if kind not in names(Group.OUTPUTS):
        raise LookupError(", ".join(kinds()))
    return load(Group.OUTPUTS, kind)
