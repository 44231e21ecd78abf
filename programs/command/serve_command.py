"""`canal-group serve`: serve the instances of files and folders until a signal stops it."""

from __future__ import annotations

import contextlib
import logging
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from canal_group.actors.process.log import LogFormat, LogLevel
from canal_group.merge.errors import ConfigError
from canal_group.programs.command.options import log_options
from canal_group.programs.command.options.http_options import (
    HTTP,
    AuditLog,
    Http,
    HttpCert,
    HttpKey,
    http_settings,
)
from canal_group.programs.stop_signal import StopSignal

if TYPE_CHECKING:
    from canal_group.actors.http.service import HttpSettings
    from canal_group.conf.folder import FolderContent
    from canal_group.conf.settings import InstanceSettings

#: interval at which `serve` checks whether its server is the active one, seconds
ROLE_EVERY_S = 0.2

_log = logging.getLogger(__name__)


def serve(
    config: Annotated[
        list[Path],
        typer.Option(
            "--config", "-c", help="An instance file, or a folder of them; watched. May be repeated."
        ),
    ],
    address: Annotated[
        str | None,
        typer.Option(help="A running Ray cluster to use: auto, or host:port. Overrides ray.address."),
    ] = None,
    scan_s: Annotated[
        float, typer.Option("--scan", min=0.1, help="Seconds between two scans of the files.")
    ] = 5.0,
    http: Http = HTTP,
    http_cert: HttpCert = None,
    http_key: HttpKey = None,
    audit_log: AuditLog = None,
    log_format: log_options.Format = LogFormat.TEXT,
    log_level: log_options.Level = LogLevel.INFO,
) -> None:
    """Serve instances until SIGTERM or Ctrl-C; print when each becomes active, stands by or is stopped.

    Instances share the gateway's port and canal's. A file `server.yaml` beside them has what they share.

    A shard that is added to a file joins its running instance, and one that is removed leaves it; any other
    change restarts the instance. In a folder, a new file starts an instance, and a removed file stops its
    instance. A broken file is reported and changes nothing.
    """
    with log_options.logged(log_format, log_level):
        _log.info("reads %s", ", ".join(map(str, config)))
        files = _Files(config, address)
        # Log before the imports of Ray, which take seconds.
        _log.info("waits for Ray: %s", files.ray)
        audit_file = None if audit_log is None else audit_log.absolute()
        listen = http_settings(http, http_cert, http_key, audit_file)
        _serve(files, listen, scan_s, log_level, audit_file)


def _serve(
    files: _Files,
    listen: HttpSettings | None,
    scan_s: float,
    log_level: LogLevel,
    audit_log: Path | None,
) -> None:
    """Serve files until a signal comes; raises as `Server.start` and `HttpService` do."""
    from canal_group.actors.driver.expiry_warnings import ExpiryWarnings
    from canal_group.actors.driver.server import Server
    from canal_group.actors.driver.start_progress import StartProgress
    from canal_group.actors.http.service import HttpService
    from canal_group.conf.folder import FolderContent

    stop = StopSignal()
    # The HTTP service may wait for actors that do not answer: it ends after the groups were handed over.
    with contextlib.ExitStack() as stack, Server(log=log_level, audit_log=audit_log) as server:
        if listen is not None:
            service = stack.enter_context(HttpService(server, listen, lambda: server.starting))
            _log.info("page, metrics and REST API: %s", service.url)
        server.expect(files.look(FolderContent()))
        for file, settings in files.fixed.items():
            server.start(file, settings)
        content, scan_at_s = FolderContent(), time.monotonic()
        progress, expiry = StartProgress(), ExpiryWarnings(None if listen is None else listen.cert)
        while not stop.is_set():
            if time.monotonic() >= scan_at_s:
                content = files.look(content)
                server.follow(content)
                scan_at_s = time.monotonic() + scan_s
            # Ray installs its own handlers when it starts with the first instance: ours must be set after
            # that.
            signal.signal(signal.SIGTERM, lambda *_: stop.set())
            signal.signal(signal.SIGINT, lambda *_: stop.set())
            server.tell_roles()
            progress.tell(server.instances)
            expiry.tell(server.instances)
            stop.wait(ROLE_EVERY_S)
        _log.info("stopping")
        if listen is not None:
            service.stop()


class _Files:
    """The instance files that were named, and those in folders that were named."""

    def __init__(self, paths: Sequence[Path], address: str | None) -> None:
        from canal_group.conf.load import load_instance

        self._address = address
        self._folders = [path for path in paths if path.is_dir()]
        #: files that the command line names, with their settings at the start
        self.fixed = {path: self._placed(load_instance(path)) for path in paths if not path.is_dir()}

    @property
    def ray(self) -> str:
        """Which Ray is used, for the log."""
        address = self._address or next((each.ray.address for each in self.fixed.values()), None)
        return f"it joins the cluster at {address}" if address else "it starts on this machine"

    def look(self, last: FolderContent) -> FolderContent:
        """Return the current settings of all files; while a folder cannot be read, the previous ones."""
        from canal_group.conf.folder import FolderContent, read_file, read_folder

        content = FolderContent()
        for file in self.fixed:
            read_file(file, content)
        for folder in self._folders:
            try:
                read = read_folder(folder)
            except ConfigError as error:
                return FolderContent(last.settings or dict(self.fixed), {**last.errors, folder: error})
            content.settings.update(read.settings)
            content.errors.update(read.errors)
        settings_by_file = {file: self._placed(settings) for file, settings in content.settings.items()}
        return FolderContent(settings_by_file, content.errors)

    def _placed(self, settings: InstanceSettings) -> InstanceSettings:
        if self._address is None:
            return settings
        chosen = settings.ray.model_copy(update={"address": self._address, "num_cpus": None})
        return settings.model_copy(update={"ray": chosen})
