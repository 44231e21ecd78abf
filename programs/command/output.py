"""What commands print: what others said in it cannot steer a terminal, or begin a line of its own."""

from __future__ import annotations

from functools import partial

import typer
from rich.console import Console
from rich.text import Text

from canal_group.merge.printable import escaped


def echo(line: str, *, err: bool = False) -> None:
    """Print one line."""
    typer.echo(escaped(line), err=err)


#: print one line on stderr
note = partial(echo, err=True)


def labelled(out: Console, label: str, style: str, line: str) -> None:
    """Print one line that begins with a coloured label; nothing in it is taken for markup."""
    out.print(Text.assemble((label, style), escaped(line)), emoji=False)
