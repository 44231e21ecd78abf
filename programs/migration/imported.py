"""Imported: canal's files as one instance file, and an answer for each of their entries.

Several instances become the shards of one destination. The result is loaded like any instance file before it
is returned: what is printed can be checked and served.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from canal_group.conf.load import build_instance
from canal_group.conf.sentence import config_error, shown
from canal_group.conf.settings import InstanceSettings
from canal_group.conf.value import default_of, is_name
from canal_group.merge.errors import ConfigError
from canal_group.programs.migration import keys
from canal_group.programs.migration.canal_files.cursor import CanalCursor, read_cursors
from canal_group.programs.migration.canal_files.properties import Entry, Properties, read_properties
from canal_group.programs.migration.canal_files.view import View
from canal_group.programs.migration.filters import filter_of
from canal_group.programs.migration.listener import listener_of
from canal_group.programs.migration.relay import relay_of
from canal_group.programs.migration.report import Answer, Report
from canal_group.programs.migration.secrets import Secrets
from canal_group.programs.migration.server import server_of
from canal_group.programs.migration.shards import Shards
from canal_group.programs.migration.stream import stream_of

_SOURCE = re.compile(r"canal\.instance\.master\d*\.address")


@dataclass(frozen=True, slots=True)
class Imported:
    """What canal's files became."""

    #: content of the instance file
    values: dict[str, Any]
    #: content of the relay's file; None: canal publishes to no message queue
    relay: dict[str, Any] | None
    files: tuple[Properties, ...]
    report: Report
    #: not written yet
    secrets: Secrets

    @property
    def answers(self) -> list[Answer]:
        """The answers, in the order of files and lines."""
        return [
            answer
            for file in self.files
            for answer in self.report.of(
                sorted({*file.entries.values(), *file.replaced}, key=lambda entry: entry.line)
            )
        ]


def imported(
    files: Sequence[Path], *, destination: str | None, secrets: Path, cursors: Sequence[Path] = ()
) -> Imported:
    """Return the settings that canal's files become; nothing is written.

    Args:
        files: canal.properties, if any, and the instance.properties of each instance, in the order of shards.
        destination: name of the stream; None: that of the only instance.
        secrets: folder for the passwords' files.
        cursors: files with canal's cursors.

    Raises:
        ConfigError: a file cannot be read, or an entry cannot be used; the message has file and line.
    """
    server, instances = _sorted([read_properties(file) for file in files])
    views = [View(instance.folder_name, instance, server) for instance in instances]
    _check_names(views, destination)
    report, secret_files = Report(), Secrets(secrets)
    start_cursors = [cursor for file in cursors for cursor in read_cursors(file)]
    settings = server_of(views, report)
    shards = _shards(views, report, secret_files, start_cursors)
    settings |= stream_of(views, report, standbys=any("hosts" in shard for shard in shards))
    values: dict[str, Any] = {
        "preset": settings.pop("preset"),
        "destination": destination or views[0].name,
        "shards": shards,
    }
    filters = filter_of(views, report)
    if filters:
        values["filter"] = filters
    for path, value in settings.items():
        _put(values, path, value)
    listener = listener_of(views, report, secret_files)
    if listener is not None:
        values["canal"] = listener
    relay = relay_of(views, report, secret_files, str(values["destination"]), settings)
    order = ["preset", *InstanceSettings.model_fields]
    values = {key: values[key] for key in order if key in values}
    sources = tuple(each for each in (server, *instances) if each is not None)
    _answer_rest(sources, views, report)
    _check(values)
    return Imported(values, relay, sources, report, secret_files)


def _sorted(files: Sequence[Properties]) -> tuple[Properties | None, list[Properties]]:
    """Return canal.properties, and the files of instances, known by name or by the source that they have."""
    instances = [
        each
        for each in files
        if each.file.name == "instance.properties"
        or (each.file.name != "canal.properties" and any(map(_SOURCE.fullmatch, each.entries)))
    ]
    others = [each for each in files if each not in instances]
    if not instances:
        raise config_error(
            ", ".join(str(each.file) for each in files),
            "canal.instance.master.address",
            "be in a file, an instance.properties",
            "is in none",
        )
    if len(others) > 1:
        raise config_error(
            str(others[1].file), "", "be the only one without a source", f"{others[0].file} has none either"
        )
    return (others[0] if others else None), instances


def _check_names(views: Sequence[View], destination: str | None) -> None:
    for view in views:
        if not is_name(view.name):
            raise config_error(
                str(view.own.file),
                "",
                "be in a folder that is named as the instance, as canal requires",
                f"the folder's name is {shown(view.name)}",
            )
        first = next(each for each in views if each.name == view.name)
        if first is not view:
            raise config_error(
                str(view.own.file),
                "",
                "be in a folder of another name",
                f"{first.own.file} is an instance {view.name} too",
            )
    if destination is None and len(views) > 1:
        raise ConfigError(
            f"{len(views)} instances become the shards of one destination, which has no name yet.",
            hint="Name it with --destination. Import an instance alone to keep its stream apart.",
        )


def _shards(
    views: Sequence[View], report: Report, secrets: Secrets, cursors: Sequence[CanalCursor]
) -> list[dict[str, Any]]:
    made, used = list[dict[str, Any]](), set[CanalCursor]()
    default_s = default_of(InstanceSettings, "reader.fallback_s")
    for view in views:
        fallback_s = float(view.whole("canal.instance.fallbackIntervalInSeconds") or default_s)
        oldest = _oldest(cursors)
        maker = Shards(view, report, secrets, fallback_s)
        made += maker.make(oldest)
        used |= maker.used
    unused = next((cursor for cursor in cursors if cursor not in used and not _older(cursor, used)), None)
    if unused is not None:
        source = f"{unused.host}:{unused.port}" if unused.host else f"instance {unused.destination}"
        raise config_error(
            unused.source, "", "hold cursors of the imported sources", f"it has one of {source}"
        )
    return made


def _oldest(cursors: Sequence[CanalCursor]) -> list[CanalCursor]:
    """Return the cursors, older ones first: the first that fits a shard is where canal would begin."""
    ordered = list[CanalCursor]()
    for cursor in cursors:
        before = next((index for index, each in enumerate(ordered) if cursor.is_before(each)), len(ordered))
        ordered.insert(before, cursor)
    return ordered


def _older(cursor: CanalCursor, used: set[CanalCursor]) -> bool:
    """Return whether another client's cursor on the same source is used instead."""
    return any(
        (each.host, each.port, each.destination) == (cursor.host, cursor.port, cursor.destination)
        for each in used
    )


def _put(values: dict[str, Any], path: str, value: Any) -> None:
    first, _, rest = path.partition(".")
    if rest:
        _put(values.setdefault(first, {}), rest, value)
    else:
        values[first] = value


def _answer_rest(files: Sequence[Properties], views: Sequence[View], report: Report) -> None:
    """Answer the entries that nothing has asked for."""
    everything = "\n".join(entry.raw for file in files for entry in file.entries.values())
    for file in files:
        for entry in file.replaced:
            report.note(entry, f"replaced by line {file.entries[entry.key].line}, as in canal")
        for entry in file.entries.values():
            if not report.has(entry):
                _answer(entry, views, everything, report)


def _answer(entry: Entry, views: Sequence[View], everything: str, report: Report) -> None:
    overriding = [view.entry(entry.key) for view in views]
    meaning = keys.meaning(entry.key)
    if entry not in overriding:
        first = overriding[0]
        report.note(entry, f"replaced by {first.location}, as in canal" if first is not None else "not used")
    elif re.search(rf"\$\{{\s*{re.escape(entry.key)}\s*[:}}]", everything) and meaning is None:
        report.note(entry, "the value of a placeholder")
    elif meaning is None:
        report.act(entry, keys.unknown(entry.key))
    else:
        report.note(entry, meaning)


def _check(values: dict[str, Any]) -> None:
    """Return if the settings can be loaded; secrets are not read: their files are not written yet."""
    build_instance(values, source="the imported settings", secrets=frozenset())
