"""Log options of long commands: how a process logs, and how much."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from canal_group.actors.process.log import LogFormat, LogLevel, LogSettings, set_up_log
from canal_group.merge.errors import CanalGroupError
from canal_group.programs.command.options.exit_code import exit_code_of

_log = logging.getLogger(__name__)

Format = Annotated[
    LogFormat, typer.Option("--log-format", help="Lines for people, or one JSON object a line.")
]
Level = Annotated[LogLevel, typer.Option("--log-level", help="The least severe level that is logged.")]


@contextmanager
def logged(chosen: LogFormat, level: LogLevel) -> Iterator[None]:
    """Let this process log to stderr as its options say; an error of ours ends it with a line and a code."""
    set_up_log(LogSettings(chosen, level))
    try:
        yield
    except CanalGroupError as error:
        _log.error("%s: %s", type(error).__name__, error)
        raise typer.Exit(exit_code_of(error)) from None
