"""Imported: canal's files as instance files, and an answer for each of their entries.

Several instances become shards of one destination, or destinations of one server, each with its own file.
What these share is then written once, as `server.yaml`. Every result is loaded like any instance file before
it is returned: what is printed can be checked and served.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from canal_group.conf.load import build_instance
from canal_group.conf.sentence import config_error
from canal_group.conf.server.server_file import SERVER_FILE, ServerFile
from canal_group.conf.settings import InstanceSettings
from canal_group.merge.errors import ConfigError
from canal_group.merge.values.reach import is_loopback
from canal_group.merge.well_known import CANAL_PORT
from canal_group.programs.migration.answers import answer_rest
from canal_group.programs.migration.canal_files.conf_files import read_conf
from canal_group.programs.migration.canal_files.cursor import read_cursors
from canal_group.programs.migration.canal_files.properties import Properties
from canal_group.programs.migration.canal_files.secret_text import is_secret
from canal_group.programs.migration.canal_files.view import View
from canal_group.programs.migration.filters import filter_of
from canal_group.programs.migration.queues.relay import relay_of
from canal_group.programs.migration.report import Answer, Report
from canal_group.programs.migration.secrets import Secrets
from canal_group.programs.migration.server import server_of
from canal_group.programs.migration.shards import Shards
from canal_group.programs.migration.starts import Source, start_at_cursors
from canal_group.programs.migration.stream import first_of, stream_of

_ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - canal's own default
_ENDS: Final = "canal.instance.filter.transaction.entry"
_DIGEST = re.compile(r"[0-9A-Fa-f]{40}")


def listener_of(views: Sequence[View], report: Report, secrets: Secrets) -> dict[str, Any] | None:
    """Return `canal`; None: canal has no listener for clients, as it publishes to a message queue.

    Raises:
        ConfigError: a value cannot be used.
    """
    view = views[0]
    mode = (view.text("canal.serverMode") or "tcp").lower()
    without = view.flag("canal.withoutNetty")
    if mode != "tcp" or without:
        for key in ("canal.ip", "canal.port", "canal.user", "canal.passwd"):
            report.note(view.given(key), "not used, as in canal: it has no listener for clients")
        for each in views:
            report.note(each.entry(_ENDS), "no setting: a relay's messages have no begin and no end")
        return None
    report.setting(view.entry("canal.serverMode"), "`canal`: the listener for canal's clients")
    port = (
        first_of(views, report, "canal.port", "canal.port", lambda each, key: each.whole(key, 1))
        or CANAL_PORT
    )
    # All instance files of a server share canal's usual port, which none of them has to name.
    settings: dict[str, Any] = {} if port == CANAL_PORT else {"port": port}
    report.setting(view.entry("canal.port"), f"`canal.port: {port}`")
    user, digest, entry = view.text("canal.user"), view.text("canal.passwd"), view.entry("canal.passwd")
    if user and digest:
        assert entry is not None
        if not _DIGEST.fullmatch(digest):
            raise entry.wrong(
                "be 40 hexadecimal digits: SHA1 of the SHA1 of the password", "is something else"
            )
        path = secrets.put("canal-clients.password", f"*{digest.upper()}")
        settings |= {"user": user, "password_file": path}
        report.setting(view.entry("canal.user"), "`canal.user`")
        report.setting(
            entry, f"`canal.password_file: {path}`: an asterisk and the digest; clients keep their password"
        )
    else:
        for key in ("canal.user", "canal.passwd"):
            report.note(view.given(key), "not used, as in canal: it counts only with the other one")
    _address(view, settings, report, open_to_all=not (user and digest))
    leaves_out = first_of(views, report, _ENDS, "canal.transaction_entries", lambda each, key: each.flag(key))
    if leaves_out:
        settings["transaction_entries"] = False
    for each in views:
        report.setting(each.entry(_ENDS), f"`canal.transaction_entries: {str(not leaves_out).lower()}`")
    return settings


def _address(view: View, settings: dict[str, Any], report: Report, *, open_to_all: bool) -> None:
    """Say where it listens: beyond this machine only if clients have to log in."""
    ip, entry = view.text("canal.ip"), view.entry("canal.ip")
    host = ip or _ANY_ADDRESS
    if open_to_all and not is_loopback(host):
        report.act(
            entry or view.entry("canal.port"),
            "canal admits everybody on that address. Here clients of other machines must log in: set"
            " `canal.user`, `canal.password_file`, and `canal.host`, which is 127.0.0.1 until then",
        )
    else:
        settings["host"] = host
        report.setting(entry, f"`canal.host: {host}`")
    register, name = view.text("canal.register.ip"), view.entry("canal.register.ip")
    if register is not None:
        settings["advertise"] = register
        report.setting(name, f"`canal.advertise: {register}`")


#: the sections that all destinations of a server share
SHARED: Final[tuple[str, ...]] = ("coordination", "canal")


@dataclass(frozen=True, slots=True)
class Destination:
    """One destination."""

    #: content of its instance file
    values: dict[str, Any]
    #: content of its relay's file; None: canal publishes to no message queue that there is a relay to
    relay: dict[str, Any] | None
    #: canal's instances behind the destination
    views: tuple[View, ...]


@dataclass(frozen=True, slots=True)
class Imported:
    """What canal's files became."""

    destinations: tuple[Destination, ...]
    files: tuple[Properties, ...]
    report: Report
    #: not written yet
    secrets: Secrets
    #: content of server.yaml, which the files of the destinations do not repeat
    server: Mapping[str, Any]

    @property
    def answers(self) -> list[Answer]:
        """The answers, in the order of files and lines."""
        return [answer for file in self.files for answer in self.report.of(str(file.file))]


def imported(
    paths: Sequence[Path], *, destination: str | None, secrets: Path, cursors: Sequence[Path] = ()
) -> Imported:
    """Return the settings of one destination that canal's files become; nothing is written.

    Args:
        paths: canal.properties, if any, and the instance.properties of each instance, in the order of shards;
            or a folder with all of them.
        destination: name of the stream; None: that of the only instance.
        secrets: folder for the passwords' files.
        cursors: files with canal's cursors.

    Raises:
        ConfigError: a file cannot be read, or an entry cannot be used; the message has file and line.
    """
    server, views = read_conf(paths)
    if destination is None and len(views) > 1:
        raise ConfigError(
            f"{len(views)} instances become the shards of one destination, which has no name yet.",
            hint="Name it with --destination. To keep their streams apart, write a file for each: --into.",
        )
    importer = _Importer(views, Report(_hidden(views)), Secrets(secrets))
    made = importer.destination(views, destination or views[0].name)
    return importer.finished(server, [made], cursors, {})


def imported_each(paths: Sequence[Path], *, secrets: Path, cursors: Sequence[Path] = ()) -> Imported:
    """Return the settings of a server with a destination for each instance; nothing is written.

    Args and errors are those of `imported`.
    """
    server, views = read_conf(paths)
    for view in views:
        if f"{view.name}.yaml" == SERVER_FILE:
            found = f"{SERVER_FILE} is the server's own"
            raise config_error(str(view.own.file), "", "be of an instance of another name", found)
    importer = _Importer(views, Report(_hidden(views)), Secrets(secrets))
    made = [importer.destination([view], view.name) for view in views]
    shared = _common([{key: each.values[key] for key in SHARED if key in each.values} for each in made])
    for each in made:
        _leave_out(each.values, shared)
    return importer.finished(server, made, cursors, shared)


def _hidden(views: Sequence[View]) -> set[str]:
    """Return the keys that secrets' placeholders stand for."""
    return {
        name for view in views for key in view.all_keys if is_secret(key) for name in view.references(key)
    }


class _Importer:
    """Makes destinations with one report, and one folder of secrets.

    Args:
        all_views: every instance that is imported.
        report: takes the answers.
        secrets: takes the passwords.
    """

    def __init__(self, all_views: Sequence[View], report: Report, secrets: Secrets) -> None:
        self._all_views, self._report, self._secrets = all_views, report, secrets
        self._sources: list[Source] = []

    def destination(self, views: Sequence[View], name: str) -> Destination:
        """Return the destination made of some instances."""
        report, secrets = self._report, self._secrets
        settings = server_of(views, report, {view.name for view in self._all_views})
        sources = [source for view in views for source in Shards(view, report, secrets, name).make()]
        self._sources += sources
        settings |= stream_of(views, report, standbys=any(each.standby for each in sources))
        values: dict[str, Any] = {
            "preset": settings.pop("preset"),
            "destination": name,
            "shards": [source.shard for source in sources],
        }
        values["filter"] = filter_of(views, report)
        for path, value in settings.items():
            _put(values, path, value)
        listener = listener_of(views, report, secrets)
        if listener is not None:
            values["canal"] = listener
        relay = relay_of(views, report, secrets, name, settings)
        order = ["preset", *InstanceSettings.model_fields]
        return Destination({key: values[key] for key in order if key in values}, relay, tuple(views))

    def finished(
        self,
        server: Properties | None,
        made: Sequence[Destination],
        cursors: Sequence[Path],
        shared: Mapping[str, Any],
    ) -> Imported:
        """Return the destinations with their starts, once every entry has its answer."""
        read = [cursor for file in cursors for cursor in read_cursors(file)]
        start_at_cursors(self._sources, read, self._report)
        environment = self._all_views[0].environment
        instances = [view.own for view in self._all_views]
        files = tuple(each for each in (environment, server, *instances) if each is not None)
        answer_rest(files, self._all_views, self._report)
        for each in made:
            # Secrets are not read: their files are not written yet.
            build_instance(
                each.values,
                source="the imported settings",
                secrets=frozenset(),
                server=ServerFile(SERVER_FILE, shared),
            )
        return Imported(tuple(made), files, self._report, self._secrets, shared)


def _common(every: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    common = dict[str, Any]()
    for key, value in every[0].items():
        own = [each.get(key) for each in every]
        if isinstance(value, Mapping) and all(isinstance(each, Mapping) for each in own):
            common[key] = _common([each for each in own if isinstance(each, Mapping)])
        elif all(each == value for each in own):
            common[key] = value
    return common


def _leave_out(values: dict[str, Any], shared: Mapping[str, Any]) -> None:
    for key, value in shared.items():
        own = values.get(key)
        if isinstance(own, dict) and isinstance(value, Mapping):
            own = values[key] = dict(own)
            _leave_out(own, value)
        if own in (value, {}):
            del values[key]


def _put(values: dict[str, Any], path: str, value: Any) -> None:
    first, _, rest = path.partition(".")
    if rest:
        _put(values.setdefault(first, {}), rest, value)
    else:
        values[first] = value
