"""Help at 80 columns: every name, default and summary of every command is there whole."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from canal_group.programs.command.cli import app


def walk(command: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield a command and all below it, each with the words that name it."""
    yield path, command
    for name, each in getattr(command, "commands", {}).items():
        yield from walk(each, *path, name)


COMMANDS = dict(walk(get_command(app)))


def shown_default(option: Any) -> str | None:
    """Return the default that help has to show; None: no default to show."""
    if option.default is None or option.default is False or option.default in ("", [], ()):
        return None
    if option.default is True:
        return str(option.opts[0]).removeprefix("--")
    return str(option.default.value if isinstance(option.default, Enum) else option.default)


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_at_80_columns_cuts_nothing(path: tuple[str, ...]):
    done = CliRunner(env={"COLUMNS": "80"}).invoke(app, [*path, "--help"])
    assert done.exit_code == 0, done.output
    assert all(len(line) <= 80 for line in done.output.splitlines())
    assert "…" not in done.output
    words, command = re.split(r"[\s,]+", done.output), COMMANDS[path]
    text = " ".join(done.output.split())
    for each in command.params:
        if each.param_type_name == "option":
            assert {*each.opts, *each.secondary_opts} <= set(words), each.name
            default = shown_default(each)
            assert default is None or re.search(rf"\[default: {re.escape(default)}[\];]", text), each.name
        assert each.help is None or " ".join(each.help.split()) in text, each.name
    for name, each in getattr(command, "commands", {}).items():
        summary = " ".join(each.help.split("\n\n")[0].split())
        assert f"{name} {summary.partition('. ')[0]}" in text, "the summary is whole"


def test_every_command_is_walked():
    assert {("serve",), ("shard", "skip-event"), ("client", "remove"), ("schema", "resolve")} <= set(COMMANDS)
    assert sum(len(each.params) for each in COMMANDS.values()) > 100, "options are found"
