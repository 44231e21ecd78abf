"""A plug-in's sink, whose unforeseen errors are sentences too."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

from canal_group.merge.errors import CanalGroupError, SinkRefused
from canal_group.merge.values.position import GroupPosition
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
        """Confirm them, with the position after them."""
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
