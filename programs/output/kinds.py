"""Kinds of outputs: the modules of `programs/output/sinks/`, each found by its name."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import Any

from canal_group.conf.value import Settings
from canal_group.programs.output import sinks
from canal_group.programs.output.sink import Sink


def kinds() -> list[str]:
    """Return the names of all kinds."""
    return sorted(module.name for module in pkgutil.iter_modules(sinks.__path__))


def settings_of(kind: str) -> type[Settings]:
    """Return the settings of a kind; imports its module, and so its client library.

    Raises:
        LookupError: there is no such kind; its argument names the known ones.
    """
    settings: type[Settings] = _module(kind).SETTINGS
    return settings


def sink_of(settings: Settings, name: str) -> Sink:
    """Return a sink that is not open.

    Args:
        settings: of its kind.
        name: of the publisher, see `Sink`.
    """
    made: Sink = _module(str(getattr(settings, "kind", ""))).SINK(settings, name)
    return made


def _module(kind: str) -> Any:
    if kind not in kinds():
        raise LookupError(", ".join(kinds()))
    return import_module(f"{sinks.__name__}.{kind}")
