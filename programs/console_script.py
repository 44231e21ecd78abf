"""What `canal-group` runs: the command line, or a sentence that names the extra that it lacks."""

from __future__ import annotations

import sys

from canal_group.extras import MissingExtraError, needed_by
from canal_group.programs.command.options.exit_code import ExitCode
from canal_group.programs.quick_exit import quick_exit


def main() -> None:
    """Run a command line; exits with an `ExitCode`."""
    try:
        with needed_by("canal-group"):
            with quick_exit():
                from canal_group.programs.command.cli import main as command_line

            command_line()
    except MissingExtraError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(ExitCode.FAILED)
