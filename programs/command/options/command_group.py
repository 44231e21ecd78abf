"""A group of commands whose help fits 80 columns and cuts nothing: no name, no default, no summary."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

#: more characters than any summary has
_WHOLE = 1_000


class _Group(TyperGroup):
    """Lists the commands of a group with whole summaries."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, each.get_short_help_str(_WHOLE)) for name, each in commands if each is not None]
            )


def command_group(text: str) -> typer.Typer:
    """Return a group without commands.

    Rich's tables, typer's choice, cut names and defaults at 80 columns; the plain text wraps them.

    Args:
        text: what its commands do.
    """
    return typer.Typer(
        cls=_Group,
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        help=text,
    )
