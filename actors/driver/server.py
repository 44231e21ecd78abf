"""A server: the instances of one process, started, restarted and stopped one by one, on one Ray."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Self

import ray

from canal_group.actors.admission.audit_log import AuditLog
from canal_group.actors.driver.gateways import Gateways
from canal_group.actors.driver.instance import Instance, close_groups
from canal_group.actors.driver.launch import gateway_actor, join_ray, launch
from canal_group.actors.driver.own_ray import OwnRay
from canal_group.actors.driver.zookeepers import ZooKeepers
from canal_group.actors.process.log import LogLevel
from canal_group.conf.cautions import cautions
from canal_group.conf.folder import FolderContent, changes
from canal_group.conf.server.shared_listeners import check_together
from canal_group.conf.settings import InstanceSettings
from canal_group.merge.errors import CanalGroupError, ConfigError, RetryableError

_log = logging.getLogger(__name__)

#: how long groups may take to tell their states, seconds; who does not is asked again the next time
STATES_WAIT_S = 1.0


class Server:
    """Runs an instance for each file it is told of; a context manager that ends them all.

    Args:
        log: the least severe level that actors log; None: `info`, and into Ray's files only.
        audit_log: where changes that commands make are logged; None: nowhere.
    """

    def __init__(self, *, log: LogLevel | None = None, audit_log: Path | None = None) -> None:
        self._log_level = log
        self._audit_log = None if audit_log is None else AuditLog(audit_log)
        #: the stop mark that was last seen of each file's destination
        self._marks: dict[Path, str] = {}
        self._instances: dict[Path, Instance] = {}
        #: what each file said when its instance was started, or last adopted it
        self._served: dict[Path, InstanceSettings] = {}
        self._zookeepers = ZooKeepers()
        self._gateways = Gateways(partial(gateway_actor, level=log or LogLevel.INFO), audit_log)
        self._ray: InstanceSettings | None = None
        self._own_ray: OwnRay | None = None
        #: what was said last of a file, and of a destination's role: nothing is said twice
        self._complaints: dict[Path, str] = {}
        #: instance files of the last look at the folders; None before the first look
        self._files: frozenset[Path] | None = None
        self._roles: dict[Path, str] = {}

    @property
    def running(self) -> dict[Path, InstanceSettings]:
        """What runs, by file, as the file said it; commands may have changed the shards since."""
        return dict(self._served)

    @property
    def instances(self) -> dict[Path, Instance]:
        """The instances, by file; may be asked from any thread."""
        return dict(self._instances)

    @property
    def starting(self) -> bool:
        """Whether a given file is neither started nor refused by name yet; may be asked from any thread."""
        files = self._files
        return files is None or any(
            file not in self._instances and file not in self._complaints for file in files
        )

    def expect(self, content: FolderContent) -> None:
        """Name instances that will be started: their clients are told to wait, not that they are unknown.

        One that is refused is not named: it has no say in who comes in where others listen.
        """
        self._gateways.expect(changes({}, content).start.values())

    def start(self, file: Path, settings: InstanceSettings) -> None:
        """Start an instance.

        Raises:
            ConfigError: it cannot be started as its settings say; nothing is left of it.
        """
        check_together(file, settings, self._served)
        self._join(file, settings)
        for sentence in cautions(settings):
            _log.warning("caution: %s", sentence, extra={"destination": settings.destination})
        self._instances[file] = launch(
            settings, log=self._log_level, zookeepers=self._zookeepers, gateways=self._gateways
        )
        self._served[file] = settings

    def stop(self, file: Path) -> None:
        """Stop an instance in good order."""
        self._roles.pop(file, None)
        self._marks.pop(file, None)
        del self._served[file]
        self._instances.pop(file).stop()

    def follow(self, content: FolderContent) -> bool:
        """Make what runs what was found; say what is wrong, and leave the rest alone.

        Returns:
            Whether anything was started or stopped.
        """
        self._files = frozenset({*content.settings, *content.errors})
        todo = changes(self.running, content)
        self._gateways.expect({**todo.restart, **todo.start}.values())
        refused, restart = dict(todo.refused), dict(todo.restart)
        for file, settings in todo.adopt.items():
            try:
                self._adopt(file, settings)
            except RetryableError:
                continue  # It stands by, or restarts, and is told again.
            except ConfigError:
                # A running instance that commands have changed cannot take these settings over.
                restart[file] = settings
            except (CanalGroupError, ray.exceptions.RayError) as error:
                refused[file] = ConfigError(f"{file} cannot be applied: {error}")
        for file in (*todo.stop, *restart):
            stopped = self._served[file].destination
            _log.info("stopping %s (%s)", stopped, file.name, extra={"destination": stopped})
            self.stop(file)
        for file, settings in {**restart, **todo.start}.items():
            try:
                self.start(file, settings)
            except (CanalGroupError, ray.exceptions.RayError) as error:
                refused[file] = ConfigError(f"{file} cannot be served: {error}")
        self._complain(refused)
        return bool(todo.stop or restart or todo.start)

    def _adopt(self, file: Path, settings: InstanceSettings) -> None:
        """Let shards join and leave; raises as `Instance.adopt`."""
        for sentence in self._instances[file].adopt(settings):
            _log.info("%s", sentence, extra={"destination": settings.destination})
        self._served[file] = settings

    def _complain(self, refused: Mapping[Path, CanalGroupError]) -> None:
        """Log the error of each file once, and that it is right again; tell the instances that still run."""
        sentences = {file: str(error) for file, error in refused.items()}
        for file, sentence in sentences.items():
            if self._complaints.get(file) != sentence:
                served = self._served.get(file)
                still = " It is still served with its earlier settings." if served is not None else ""
                about = None if served is None else served.destination
                _log.error("%s%s", sentence, still, extra={"destination": about})
        for file in self._instances.keys() & (sentences.keys() | self._complaints.keys()):
            # Each time: a group that has restarted since does not know it.
            self._instances[file].file_refused(sentences.get(file, ""))
            if file not in sentences:
                about = self._served[file].destination
                _log.info("%s is right again", file, extra={"destination": about})
        self._complaints = sentences

    def tell_roles(self) -> None:
        """Say of each destination whether it is served here, stood by for, or stopped, when that changes."""
        answers = {instance.ask_state(): file for file, instance in self._instances.items()}
        if not answers:
            return
        ready, _ = ray.wait(list(answers), num_returns=len(answers), timeout=STATES_WAIT_S)
        for answer in ready:
            file = answers[answer]
            try:
                state: dict[str, Any] = ray.get(answer)
            except ray.exceptions.RayError:
                continue  # It restarts, and is asked again.
            self._audit_mark(file, state)
            role = _role(self._served[file], self._instances[file].uri, state)
            if role is not None and self._roles.get(file) != role:
                _log.info("%s", role, extra={"destination": self._served[file].destination})
                self._roles[file] = role

    def _audit_mark(self, file: Path, state: Mapping[str, Any]) -> None:
        """Log that a stop mark was set or removed: commands do that without asking a server."""
        mark, before = state.get("stopped") or "", self._marks.get(file, "")
        role = mark or state["active"] or state.get("active_server")
        if self._audit_log is None or mark == before or not role:
            return
        self._marks[file] = mark
        destination = self._served[file].destination
        try:
            if mark:
                by = mark.removeprefix("stopped by ").partition(" at ")[0]
                self._audit_log.seen(by, destination, "stop", mark=mark)
            else:
                self._audit_log.seen("unknown", destination, "start", mark=f"was {before}")
        except OSError as error:
            _log.error("the audit log cannot be written: %s", error, extra={"destination": destination})

    def close(self) -> None:
        """Stop everything: all groups hand over side by side, then their actors end."""
        close_groups(list(self._instances.values()))
        self._gateways.close()
        for instance in self._instances.values():
            instance.end()
        self._instances.clear()
        self._served.clear()
        self._zookeepers.close()
        if self._own_ray is not None:
            self._own_ray.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _join(self, file: Path, settings: InstanceSettings) -> None:
        if self._ray is None:
            self._own_ray = join_ray(settings, forward=self._log_level is not None)
            self._ray = settings
        elif self._ray.ray != settings.ray:
            raise ConfigError(
                f"{file}: `ray` must be the same in all files of one server.",
                hint=f"It differs from {self._ray.destination}'s; restart the server to change it for all.",
            )


def _role(settings: InstanceSettings, uri: str, state: Mapping[str, Any]) -> str | None:
    """Return a sentence on an instance's role, for an operator; None: it is not known yet."""
    what = f"{settings.destination} ({len(settings.shards)} shards) at {uri}"
    if state["active"]:
        return f"serving {what}"
    if state["stopped"]:
        return f"not serving {what}: {state['stopped']}"
    active = state["active_server"]
    return f"standing by for {what}" + (f": {active} is active" if active else "")
