"""The command `canal-group schema`."""

from __future__ import annotations

from typer.testing import CliRunner

from canal_group.actors.driver.instance import Instance
from canal_group.programs.command.cli import app


def command(instance: Instance, destination: str, *words: str, said: str = "", code: int = 0) -> str:
    where = ["-d", destination, "-g", instance.uri]
    result = CliRunner().invoke(app, ["schema", *words, *where], input=said)
    assert result.exit_code == code, result.output or result.exception
    return result.output
