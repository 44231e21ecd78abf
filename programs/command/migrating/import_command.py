"""`canal-group import`: canal's configuration as an instance file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from canal_group.merge.errors import ConfigError
from canal_group.programs.command.output import echo


def import_files(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="canal.properties, and the instance.properties of each instance, in the order of shards."
        ),
    ],
    destination: Annotated[
        str | None,
        typer.Option("--destination", "-d", help="Name of the stream. Default: that of the only instance."),
    ] = None,
    secrets: Annotated[
        Path, typer.Option(help="Folder for the passwords, one file each; none is overwritten.")
    ] = Path("secrets"),
    meta: Annotated[
        list[Path] | None,
        typer.Option(
            help="canal's meta.dat, or the data of a `cursor` node, to begin there; repeat for several."
        ),
    ] = None,
    relay: Annotated[
        Path | None,
        typer.Option(help="File to write for `canal-group relay`, if canal publishes to a message queue."),
    ] = None,
) -> None:
    """Print an instance file that does what canal's files say; on stderr, what became of each entry.

    Several instances become the shards of one stream. What is left to do is a comment in the file.
    """
    from canal_group.programs.migration.imported import imported
    from canal_group.programs.migration.instance_text import instance_text, relay_text

    found = imported(files, destination=destination, secrets=secrets, cursors=meta or ())
    text = instance_text(found)
    if relay is not None and found.relay is None:
        raise ConfigError(
            "canal publishes to no message queue that there is a relay to.", hint="Leave out --relay."
        )
    found.secrets.write(also={} if relay is None else {relay: relay_text(found)})
    typer.echo(text, nl=False)
    for answer in found.answers:
        echo(str(answer), err=True)
    for path in found.secrets.new:
        echo(f"wrote {path}", err=True)
    todo = len(found.report.left_to_do)
    echo(f"{todo} of {len(found.answers)} answers are left to do; next: canal-group check", err=True)
