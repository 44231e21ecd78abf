"""`make demo`: the command that `playground.demo_command` defines, which takes a second to import."""

from __future__ import annotations

from canal_group.programs.quick_exit import quick_exit

if __name__ == "__main__":
    with quick_exit():
        from canal_group.programs.command.cli import main
        from playground.demo_command import app
    main(app)
