"""The demo's instance: settings for recorded shards, and the actors that run an instance."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from canal_group.actors.driver.instance import Instance
from canal_group.actors.driver.launch import launch
from canal_group.actors.process.log import LogLevel
from canal_group.conf.load import build_instance
from canal_group.conf.settings import InstanceSettings
from canal_group.programs.demo.recorded_shards import RecordedShard
from canal_group.programs.demo.tables import WHITE, routes

DESTINATION = "shop"
#: where Ray keeps what it writes
_RAY_FOLDER = "RAY_TMPDIR"
#: Ray has sockets deep in its folder, whose paths may have 107 characters: above this, too little is left
_PARENT_MAX = 20


def shard_name(shard: int) -> str:
    """Return the name of a shard."""
    return f"shop-{shard}"


def settings_for_files(recorded: Sequence[RecordedShard], folder: Path) -> InstanceSettings:
    """Return the instance that reads recorded shards: it needs nothing but this process's own."""
    return build_instance(
        {
            "preset": "memory",
            "destination": DESTINATION,
            "shards": [{"name": each.record.shard, "files": str(each.folder)} for each in recorded],
            "filter": {"white": WHITE, "routes": routes()},
            "gateway": {"port": 0},
        },
        source="the demo's settings",
        folder=folder,
    )


@contextmanager
def running(settings_in: Callable[[Path], InstanceSettings], log: LogLevel) -> Iterator[Instance]:
    """Launch an instance; leaving ends it and removes everything it wrote.

    Args:
        settings_in: returns its settings, given a folder of its own.
        log: the least severe level that its actors log.
    """
    parent = None if len(tempfile.gettempdir()) <= _PARENT_MAX else "/tmp"  # noqa: S108 - a private folder in it
    with tempfile.TemporaryDirectory(prefix="cg-demo-", dir=parent, ignore_cleanup_errors=True) as name:
        before = os.environ.get(_RAY_FOLDER)
        os.environ[_RAY_FOLDER] = name
        try:
            with launch(settings_in(Path(name)), log=log) as instance:
                yield instance
        finally:
            if before is None:
                del os.environ[_RAY_FOLDER]
            else:
                os.environ[_RAY_FOLDER] = before
