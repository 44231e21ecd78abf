"""What `canal-group` runs: the command line, or a sentence that names the extra that it lacks.

It imports everything where Ctrl-C is answered with a line.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run a command line; exits with an `ExitCode`."""
    try:
        _run()
    except (KeyboardInterrupt, RuntimeError) as error:
        # A command says it itself, unless it imports something: where a class is being made, Python 3.11
        # raises RuntimeError from the interrupt.
        if not isinstance(error.__cause__ or error, KeyboardInterrupt):
            raise
        from canal_group.programs.command.options.exit_code import ExitCode

        sys.stderr.write("Interrupted.\n")
        sys.exit(ExitCode.INTERRUPTED)


def _run() -> None:
    from canal_group.programs.quick_exit import quick_exit

    with quick_exit():
        from canal_group.extras import MissingExtraError, needed_by
        from canal_group.programs.command.options.exit_code import ExitCode

    try:
        with needed_by("canal-group"):
            with quick_exit():
                from canal_group.programs.command.cli import main as command_line

            command_line()
    except MissingExtraError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(ExitCode.FAILED)
