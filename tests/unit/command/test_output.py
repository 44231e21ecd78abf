"""Commands print by one module, which escapes what others said."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from rich.console import Console

import canal_group.programs.command
from canal_group.programs.command import cli
from canal_group.programs.command.json_line import json_line
from canal_group.programs.command.output import echo, labelled

EVIL = "x\x1b[1A\x1b[2K\x9b2J\nok    shop.yaml: [red]all is well[/red]\u202e"
COMMANDS = Path(canal_group.programs.command.__file__).parent


def test_a_line_stays_one_line_and_steers_no_terminal(capsys: pytest.CaptureFixture[str]):
    echo(EVIL)
    echo(EVIL, err=True)
    labelled(Console(width=200), "FAIL  ", "red", EVIL)
    said = capsys.readouterr()
    for text in (*said.out.split("\n"), *said.err.split("\n")):
        assert text.isprintable()
    assert len(said.out.splitlines()) == 2
    assert "[red]all is well[/red]" in said.out.splitlines()[1], "it is not markup"
    assert json_line({"name": EVIL}).isprintable()


def test_no_command_prints_by_itself():
    """`import` prints a file; `status`, `top` and `consume` print tables and a bar of escaped texts."""
    found = {file.relative_to(COMMANDS).as_posix() for file in COMMANDS.rglob("*.py") if _prints(file)}
    assert found == {
        "output.py",
        "import_command.py",
        "consuming/show.py",
        "consuming/snapshot_bar.py",
        "status_page.py",
        "top_command.py",
    }


def _prints(file: Path) -> bool:
    return re.search(r"typer\.echo\(|\bprint\(|std(out|err)\.write\(", file.read_text()) is not None


def test_an_error_of_a_server_forges_no_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(
        sys, "argv", ["canal-group", "check", "-c", str(tmp_path / f"no{EVIL[1:12]}[/].yaml")]
    )
    with pytest.raises(SystemExit):
        cli.main()
    said = capsys.readouterr().err
    assert said.removesuffix("\n").isprintable(), said
