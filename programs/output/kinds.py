"""Kinds of outputs: the modules of `programs/output/sinks/`, each found by its name, and plug-ins."""

from __future__ import annotations

import logging
import pkgutil
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from canal_group.conf.plugins.entry_points import Group, load, names, refuse_a_namesake
from canal_group.conf.value import Settings
from canal_group.merge.errors import CanalGroupError, ConfigError, SinkRefused
from canal_group.merge.values.position import GroupPosition
from canal_group.programs.output import sinks
from canal_group.programs.output.messages import Messages
from canal_group.programs.output.sink import Sink

_log = logging.getLogger(__name__)

_P = ParamSpec("_P")
_T = TypeVar("_T")


class PlugInSink:
    """Implements `canal_group.programs.output.sink.Sink` by a plug-in's.

    Args:
        inner: the plug-in's.
        kind: its name.
    """

    def __init__(self, inner: Sink, kind: str) -> None:
        self._inner, self._kind = inner, kind

    @property
    def keeps_position(self) -> bool:
        """Whether it keeps the position together with the messages."""
        return self._inner.keeps_position

    def open(self) -> GroupPosition | None:
        """Connect, and return the confirmed position."""
        return self._guarded("open", self._inner.open)

    def write(self, messages: Messages) -> None:
        """Send messages."""
        self._guarded("write", self._inner.write, messages)

    def flush(self) -> None:
        """Wait until the output has them."""
        self._guarded("flush", self._inner.flush)

    def confirm(self, position: GroupPosition) -> None:
        """Confirm all messages so far, with the position after the last."""
        self._guarded("confirm", self._inner.confirm, position)

    def close(self) -> None:
        """Disconnect; an error is logged, as another one may be the reason for closing."""
        try:
            self._guarded("close", self._inner.close)
        except CanalGroupError as error:
            _log.warning("%s", error)

    def _guarded(self, name: str, call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return call(*args, **kwargs)
        except CanalGroupError:
            raise
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            at = f"{Path(frame.filename).name}:{frame.lineno}"
            raise SinkRefused(
                f"The plug-in {self._kind!r} failed in `{name}` ({type(error).__name__} at {at}: {error}).",
                hint="Correct the plug-in: a sink raises SinkUnavailable, SinkRefused or FencedError.",
            ) from error


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
