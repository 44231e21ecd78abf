"""`canal-group import`: canal's configuration as an instance file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from canal_group.merge.errors import ConfigError
from canal_group.merge.file_name import file_name
from canal_group.programs.command.output import echo


def import_files(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="canal.properties, and the instance.properties of each instance, in the order of shards;"
            " or canal's conf folder."
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
        typer.Option(
            help="File to write for `canal-group relay`, if canal publishes to a message queue. With --into:"
            " a folder, which gets one for each instance."
        ),
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option(
            help="Keep the instances apart: write a file for each to this folder, and what they share to its"
            " server.yaml. None is overwritten."
        ),
    ] = None,
) -> None:
    """Print an instance file that does what canal's files say; on stderr, what became of each entry.

    Several instances become the shards of one stream, or with --into streams of one server. What is left to
    do is a comment in the file.
    """
    from canal_group.programs.migration.imported import imported, imported_each
    from canal_group.programs.migration.instance_text import instance_text, relay_text, texts_of

    if into is not None and relay is not None and relay.resolve() == into.resolve():
        raise ConfigError(
            f"--relay is the folder of --into, {into}: a relay's file has the name of its instance's.",
            hint="Name another folder for the relays.",
        )
    if into is None:
        found = imported(files, destination=destination, secrets=secrets, cursors=meta or ())
    elif destination is not None:
        raise typer.BadParameter("with --into each instance keeps its name", param_hint="--destination")
    else:
        found = imported_each(files, secrets=secrets, cursors=meta or ())
    relays = {each.values["destination"]: each.relay for each in found.destinations if each.relay is not None}
    if relay is not None and not relays:
        raise ConfigError(
            "canal publishes to no message queue that there is a relay to.", hint="Leave out --relay."
        )
    written = {} if into is None else texts_of(found, into)
    if relay is not None:
        written |= {
            relay if into is None else relay / file_name(f"{name}.yaml"): relay_text(values)
            for name, values in relays.items()
        }
    text = instance_text(found, found.destinations[0])
    found.secrets.write(also=written)
    if into is None:
        typer.echo(text, nl=False)
    for answer in found.answers:
        echo(str(answer), err=True)
    for path in (*written, *found.secrets.new):
        echo(f"wrote {path}", err=True)
    todo = len(found.report.left_to_do)
    echo(f"{todo} of {len(found.answers)} answers are left to do; next: canal-group check", err=True)
