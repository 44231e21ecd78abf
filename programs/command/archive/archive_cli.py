"""`canal-group archive list|verify|prune|export|adopt`: an archive of binlogs, by its folder."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from canal_group.binlog.archive.manifest import FileEntry, Manifest, State
from canal_group.merge.errors import UsageError
from canal_group.programs.command.json_line import json_line
from canal_group.programs.command.options.byte_size import parse_size
from canal_group.programs.command.options.command_group import command_group
from canal_group.programs.command.options.exit_code import ExitCode
from canal_group.programs.command.output import echo, note

if TYPE_CHECKING:
    from canal_group.binlog.archive.archive import Archive
    from canal_group.binlog.archive.history import History

_SECOND_US = 1_000_000


def history_lines(name: str, manifest: Manifest) -> Iterator[str]:
    """Yield a line for a history, and one for each of its files."""
    files = manifest.files
    size, stored = sum(each.size for each in files), sum(each.stored for each in files)
    part = f", {stored / size:.0%} of it stored" if size else ""
    yield f"{name}: {len(files)} files, {size:,} bytes{part}"
    for each in files:
        yield f"  {_file_line(each)}"


def _file_line(entry: FileEntry) -> str:
    parts = [f"{entry.name}  {entry.state}, {entry.form}, {entry.size:,} bytes"]
    if entry.first_us:
        parts.append(f"{_shown(entry.first_us)} to {_shown(entry.latest_us)}")
    if entry.gtids and entry.state is not State.OPEN:
        parts.append(f"up to {entry.gtids}")
    if entry.damaged:
        parts.append(f"damaged: {', '.join(f'{begin:,} to {end:,}' for begin, end in entry.damaged)}")
    return "; ".join(parts)


def _shown(time_us: int) -> str:
    return f"{datetime.fromtimestamp(time_us / _SECOND_US, UTC):%Y-%m-%dT%H:%M:%SZ}"


app = command_group("List, check, clear and export an archive of binlogs; take binlog files over into it.")

Folder = Annotated[Path, typer.Argument(help="The archive's folder.", show_default=False)]
KeyFile = Annotated[
    Path | None,
    typer.Option("--key-file", help="Its keys, if it is encrypted: 64 hexadecimal digits a line."),
]
StoreUri = Annotated[
    str | None, typer.Option("--store", help="Where moved files are: s3://bucket/prefix, or a folder.")
]
OfHistory = Annotated[
    str | None,
    typer.Option(
        "--history", help="Only this history, as `list` names it: SERVER@CREATED.", show_default=False
    ),
]


@app.command(name="list")
def list_histories(
    folder: Folder,
    key_file: KeyFile = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object a line for each file.")
    ] = False,
) -> None:
    """List the histories of servers, and their files, as the manifests have them."""
    from dataclasses import asdict

    for history in _archive(folder, key_file, None).histories():
        if as_json:
            for entry in history.manifest.files:
                echo(json_line({"history": history.name, **asdict(entry)}))
            continue
        for line in history_lines(history.name, history.manifest):
            echo(line)


@app.command()
def verify(
    folder: Folder, history: OfHistory = None, key_file: KeyFile = None, store: StoreUri = None
) -> None:
    """Read all files, and check each event, frame, gap, and what the manifests say; a line for each file."""
    from canal_group.binlog.archive.operating.verification import verify as findings

    failed = False
    for each in _histories(_archive(folder, key_file, store), history):
        for found in findings(each):
            failed |= bool(found.wrong)
            said = found.wrong or f"{found.size:,} bytes, {found.transactions:,} transactions"
            echo(f"{'FAIL' if found.wrong else 'ok'}  {found.file}: {said}")
    if failed:
        raise typer.Exit(ExitCode.FAILED)


@app.command()
def prune(
    folder: Folder,
    bytes_max: Annotated[
        str | None, typer.Option("--bytes-max", help="What may stay on the disk, such as 100GiB.")
    ] = None,
    hours: Annotated[
        float | None, typer.Option("--hours", min=0, help="How long a file stays after its last transaction.")
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep", help="A position that is read from later, FILE:POS; the limit of bytes is stronger."
        ),
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the files; else they are listed.")] = False,
    key_file: KeyFile = None,
    store: StoreUri = None,
) -> None:
    """List what a retention would remove, oldest first; with --remove, remove it.

    Nothing may write to the archive while files are removed.
    """
    from canal_group.binlog.archive.operating.retention import ArchivedHistory, Limits, removals
    from canal_group.binlog.archive.upkeep import Upkeep
    from canal_group.merge.values.position import Position
    from canal_group.merge.values.retention.kept_position import KeptPosition
    from canal_group.merge.values.start import InFile, parse_shard_start

    if bytes_max is None and hours is None:
        raise typer.BadParameter("Give --bytes-max, --hours, or both.")
    kept = []
    for text in keep or ():
        start = parse_shard_start(text, time.time_ns() // 1000)
        if not isinstance(start, InFile):
            raise typer.BadParameter(f"{text} is not a file and offset.", param_hint="--keep")
        kept.append(KeptPosition(text, Position(start.file, start.offset)))
    archive = _archive(folder, key_file, store)
    limits = Limits(None if bytes_max is None else parse_size(bytes_max), hours)
    histories = {each.name: each for each in archive.histories()}
    planned = [ArchivedHistory(each.name, each.manifest) for each in histories.values()]
    for removal in removals(planned, limits, kept, time.time_ns() // 1000):
        if not remove:
            echo(f"would remove {removal}")
        else:
            history = histories[removal.history]
            if removal.entry.remote and store is None:
                raise UsageError(
                    f"{removal.entry.name} of {history.name} was moved to an object store.",
                    hint="Say which: `--store`.",
                )
            with archive.lock(history.manifest.server):
                history.refresh()
                left = Upkeep(archive, history).prune(removal.entry.name)
            echo(f"removed {removal}")
            if left:
                note(left)


@app.command()
def export(
    folder: Folder,
    to: Annotated[Path, typer.Option("--to", help="The folder to write to.", show_default=False)],
    files: Annotated[
        list[str] | None,
        typer.Argument(help="Their names at the server; all unless given.", show_default=False),
    ] = None,
    history: OfHistory = None,
    key_file: KeyFile = None,
    store: StoreUri = None,
) -> None:
    """Write files as binlogs, which mysqlbinlog and servers read; the open one up to its last transaction."""
    from canal_group.binlog.archive.operating.export import export as exported

    found = _histories(_archive(folder, key_file, store), history)
    if len(found) != 1:
        raise UsageError(
            f"{folder} has {len(found)} histories: {', '.join(each.name for each in found)}.",
            hint="Name one with --history.",
        )
    for path, size in exported(found[0], files or (), to):
        echo(f"{path}: {size:,} bytes")


@app.command()
def adopt(
    folder: Folder,
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Binlogs of one server, in order, or their folder: its own, or mysqlbinlog --raw's.",
            show_default=False,
        ),
    ],
    server: Annotated[
        str,
        typer.Option(
            "--server",
            help="Identity of the server: MySQL's @@server_uuid, MariaDB's @@server_id.",
            show_default=False,
        ),
    ],
    key_file: KeyFile = None,
    store: StoreUri = None,
) -> None:
    """Take over binlogs: as a new history, after the newest one, or in place of damaged files."""
    from canal_group.binlog.archive.operating.adoption import Adoption
    from canal_group.binlog.files.binlog_files import files_in

    paths = [each for path in files for each in (files_in(path) if path.is_dir() else [path])]
    archive = _archive(folder, key_file, store)
    with archive.lock(server):
        for line in Adoption(archive, server, note).run(paths):
            echo(line)


def _archive(folder: Path, key_file: Path | None, store: str | None) -> Archive:
    from canal_group.binlog.archive.archive import Archive
    from canal_group.binlog.archive.disk import Disk
    from canal_group.binlog.archive.forms.key import NO_KEYS, read_keys
    from canal_group.binlog.archive.object_store import ObjectStore

    keys = NO_KEYS if key_file is None else read_keys(key_file)
    return Archive(Disk(), folder, keys, None if store is None else ObjectStore(store))


def _histories(archive: Archive, name: str | None) -> list[History]:
    """Return the histories, or the one of a name.

    Raises:
        UsageError: there are none.
    """
    histories = archive.histories()
    found = [each for each in histories if name in (None, each.name)]
    if not found:
        there = ", ".join(each.name for each in histories)
        raise UsageError(
            f"{archive.folder} has no history{'' if name is None else ' ' + name}.",
            hint=f"It has {there}." if there else "It is not the folder of an archive.",
        )
    return found
