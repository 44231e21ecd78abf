"""Ray on loopback: starting one that listens on this machine only, and joining one that does.

Ray replaces 127.0.0.1 by an address that other machines reach, listens on every interface, and looks for a
loopback cluster at the wrong address. It leaves loopback alone only where it knows no clusters, as on a
desktop.

Ray writes what an actor prints into files of its session, sends the lines to the driver, and there prints
them with a prefix of its own, leaving out lines that resemble each other. Here they are logged instead. An
actor's log lines are JSON (`ActorLog`) and become the records that they were. Everything else,
such as the last words of an interpreter that crashes, or Ray's own, becomes a record each line. The driver
loses lines that arrive after it has left Ray; the session's files have them.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import ray
from ray._private import ray_constants, worker
from ray._private.ray_constants import LOG_PREFIX_EVENT_SUMMARY
from ray._raylet import Config
from ray.job_config import JobConfig

from canal_group import malloc_tuning
from canal_group.actors.driver.ray_private import private_folder, require_token
from canal_group.actors.process.log import origin_of
from canal_group.actors.process.log_line import record_of

#: the function by which Ray prints what actors, and raylets, have to say; ours replaces it
_PRINTS = "print_to_stdstream"
#: loggers of what is not a log line: an actor's output, and what else of Ray has something to say
_ACTOR, _RAY = "ray.actor", "ray"


def forward_log() -> None:
    """Log what actors print, from the next time on that this process connects to Ray."""
    setattr(worker, _PRINTS, _forward)


def _forward(data: Mapping[str, Any], *_: Any, **__: Any) -> None:
    """Log lines as Ray sends them: `lines`, `pid`, `is_err`, and of an actor `actor_name`, its `__repr__`."""
    who = str(data.get("pid"))
    if who == "autoscaler":
        # Of a process that repeats its state every few seconds, Ray marks what is news.
        news = (line.partition(LOG_PREFIX_EVENT_SUMMARY) for line in data["lines"])
        lines = [after for _, mark, after in news if mark]
    else:
        lines = data["lines"]
    logger = _ACTOR if who.isdecimal() else _RAY
    level = logging.WARNING if data.get("is_err") or who == "raylet" else logging.INFO
    origin = origin_of(data.get("actor_name") or "")
    for line in lines:
        record = record_of(line)
        if record is None:
            if not line.strip():
                continue
            record = logging.LogRecord(logger, level, "", 0, line, None, None)
        for field, value in origin.items():
            if not hasattr(record, field):
                setattr(record, field, value)
        logging.getLogger(record.name).handle(record)


_log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
#: pauses before Ray repeats a question to an actor that restarts, milliseconds: the first, and the longest
RETRY_FIRST_MS, RETRY_MAX_MS = 100, 1_000
#: what each process of a Ray with spare processes imports before it waits for an actor: most actors are
#: shards, and the others have most modules in common with them
_PRELOADED = "canal_group.actors.shard.shard"


def start(
    namespace: str, num_cpus: int | None = None, *, forward: bool = False, spare_processes: int = 0
) -> None:
    """Start Ray on this machine and connect to it; `ray.shutdown` ends it.

    It asks for a token, and other users of the machine can neither read that nor enter Ray's folder.

    Args:
        namespace: where its actors' names stand.
        num_cpus: CPUs it may plan with; None: all of the machine's.
        forward: whether the actors' lines are logged here, too, see
            `canal_group.actors.driver.local_ray`.
        spare_processes: idle processes that it keeps, once it has started them.
    """
    require_token()
    _listen(forward)
    # A Ray that `serve` starts always has a token; Ray's warning about the token helps nobody.
    logging.getLogger("ray").setLevel(logging.ERROR)
    start_ray = partial(
        ray.init,
        address="local",
        namespace=namespace,
        num_cpus=num_cpus,
        include_dashboard=False,
        log_to_driver=forward,
        configure_logging=False,
        job_config=_with_installed_modules(),
        _node_ip_address=LOOPBACK,
        # In a folder of our own: Ray lets everybody write into the one that it is given.
        _temp_dir=str(private_folder() / "ray"),
    )
    with loopback_kept(), malloc_tuning.inherited(), _configured(spare_processes):
        try:
            start_ray()
        except Exception as error:  # noqa: BLE001  where its processes start too slowly, Ray raises that itself
            _log.warning("Ray did not start, and is started again: %s", error)
            ray.shutdown()
            start_ray()


def join(address: str, namespace: str, *, forward: bool = False) -> None:
    """Connect to a Ray cluster that runs.

    Args:
        address: "host:port" of its head, or "auto" for the one that was started on this machine last.
        namespace: where our actors' names stand.
        forward: whether the actors' lines are logged here, too, see
            `canal_group.actors.driver.local_ray`.
    """
    _listen(forward)
    logging.getLogger("ray").setLevel(logging.WARNING)
    common = {
        "namespace": namespace,
        "log_to_driver": forward,
        "configure_logging": False,
        "job_config": _with_installed_modules(),
    }
    if address.rpartition(":")[0] in {LOOPBACK, "localhost"}:
        with loopback_kept():
            ray.init(address=address, _node_ip_address=LOOPBACK, **common)
    else:
        ray.init(address=address, **common)


def _with_installed_modules() -> JobConfig:
    """Return a job whose processes import what is installed, and not what lies in the working folder.

    Ray puts the driver's working folder before everything else on the path of each process. A file `conf.py`
    there would be imported instead of ours, beside the sources' passwords. It leaves the path alone only for
    jobs of its client, for which the folder is on another machine.
    """
    return JobConfig(_client_job=True)


@contextmanager
def _configured(spare_processes: int) -> Iterator[None]:
    """Give Ray's processes its settings for restarts and priority, unless the environment has them.

    By the environment: a Ray that does not know one of them ignores it.
    """
    settings: dict[str, object] = {
        # A question to an actor that restarts, repeated by Ray: the pauses double, up to the longest.
        "RAY_task_actor_unavailable_retry_delay_base_ms": RETRY_FIRST_MS,
        "RAY_task_actor_unavailable_retry_max_delay_ms": RETRY_MAX_MS,
        # How often it is looked at whether they are over.
        "RAY_core_worker_internal_heartbeat_ms": RETRY_FIRST_MS,
        # Niceness of the workers. With Ray's own, 15, they get a thirtieth of a processor beside one that
        # computes, such as a database server on the same machine; each row waits for several of them in turn.
        "RAY_worker_niceness": 0,
        # Else there is a line in the log for each, beside that of the actor that ended.
        "RAY_enable_output_error_log_if_still_retry": 0,
        # Ray answers every user of the machine who asks for its metrics, and has no token for them.
        "RAY_enable_metrics_collection": 0,
    }
    if spare_processes:
        settings |= {
            "RAY_preload_python_modules": _PRELOADED,
            "RAY_num_workers_soft_limit": spare_processes,
            # By default Ray starts a process for each CPU at once, and later ends surplus processes.
            "RAY_prestart_worker_first_driver": 0,
        }
    ours = {name: str(value) for name, value in settings.items() if name not in os.environ}
    os.environ.update(ours)
    # This process has read the environment when it imported Ray.
    Config.initialize("")
    try:
        yield
    finally:
        for name in ours:
            del os.environ[name]


def _listen(forward: bool) -> None:
    """Log what Ray itself has to say like everything else, and what actors print if it is to be forwarded."""
    logging.getLogger("ray").propagate = True
    if forward:
        forward_log()


@contextmanager
def loopback_kept() -> Iterator[None]:
    """Let Ray take 127.0.0.1 at its word."""
    enabled, ray_constants.ENABLE_RAY_CLUSTER = ray_constants.ENABLE_RAY_CLUSTER, False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = enabled
