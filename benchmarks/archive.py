"""Archive: what a whole instance gains and loses by an archive of its sources, in one run.

Four MariaDB servers, with two backlogs as in `group`: `bulk` and `small`. Of each, without an archive and
with one:

- first: a first start reads the backlog; the archive is empty at first;
- following: the consumer is up to date, and reads what the servers write meanwhile; the clock runs from the
  first write to the last row;
- again: its client id is rewound to the earliest position. With an archive, a replay reads closed files.

`sent` is how many times its bytes a source has sent before that. `processor_s` is the processor time of each
kind of process meanwhile, seconds; of dump servers, which start before that, in all of the first part.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks._load import BULK_ROWS, SHARDS, await_until, cpu_s, cpus, fill, paused, servers
from benchmarks._pipeline import (
    DESTINATION,
    Passage,
    await_followed,
    consumer,
    instance,
    processes,
    read_all,
    spent_s,
)
from canal_group.actors.driver.instance import Instance
from canal_group.binlog.archive.archive import Archive
from canal_group.binlog.archive.disk import Disk
from canal_group.binlog.archive.manifest import FileEntry, Form
from canal_group.gateway.gateway_client import GatewayClient
from canal_group.operator import Operator, calls
from playground.database.engine import Engine
from playground.database.server_process import DatabaseServer

#: rows of each backlog, over all servers
_BULK, _SMALL = 2_000_000, 100_000
#: how many times the servers write while the consumer follows
_FOLLOWED = 2
#: how long the archive may take to compress its files, seconds
_PACKED_S = 60.0


def measure(size: float) -> dict[str, Any]:
    """Return rows per second and what the sources sent, for both backlogs."""
    with servers(Engine.MARIADB) as made:
        bulk = _measured(made, "bulk", int(_BULK * size) // SHARDS // BULK_ROWS)
        small = _measured(made, "small", int(_SMALL * size) // SHARDS)
    return {"bulk": bulk, "small": small, "cpus": cpus()}


def _measured(made: Sequence[DatabaseServer], procedure: str, times: int) -> dict[str, Any]:
    live = _read(made, procedure, times, archives=False)
    kept = _read(made, procedure, times, archives=True)
    return {
        "rows_per_s": live.shown(),
        "archived_rows_per_s": kept.shown(),
        "following_ratio": round(kept.following / live.following, 2),
        "first_start_ratio": round(kept.first / kept.again, 2),
        "replay_ratio": round(kept.again / live.again, 2),
        "sent": round(live.sent, 2),
        "archived_sent": round(kept.sent, 2),
        "stored_of_binlog": round(kept.stored, 3),
        "processor_s": live.processors,
        "archived_processor_s": kept.processors,
    }


@dataclass(frozen=True, slots=True)
class _Read:
    """Rows per second of an instance, and what it took."""

    first: float
    following: float
    again: float
    #: bytes that the sources sent, of what they wrote
    sent: float
    #: bytes of closed files on the disk, of their binlogs'; 1: there is no archive
    stored: float
    #: processor time by what was read, and by kind of process
    processors: dict[str, dict[str, float]]

    def shown(self) -> dict[str, int]:
        """Return the rows per second by what was read."""
        return {name: round(getattr(self, name)) for name in ("first", "following", "again")}


def _read(made: Sequence[DatabaseServer], procedure: str, times: int, *, archives: bool) -> _Read:
    """Let an instance read a backlog, follow, and read all of it again."""
    backlogs = [fill(made, procedure, times)]
    before = _sent(made)
    with ExitStack() as stack:
        overrides = stack.enter_context(_archiving(archives))
        pause = stack.enter_context(ExitStack())
        pause.enter_context(paused(made))
        running = stack.enter_context(instance(made, **overrides))
        await_followed(running)
        spent = _Spent(made, running, Path(overrides["archive"]["folder"]) if archives else None)
        pause.close()
        since_s = time.monotonic()
        with consumer(running) as reader:
            first = read_all(reader, backlogs[0].rows, since_s)
            spent.note("first")
            following = Passage()
            for _ in range(_FOLLOWED):
                since_s = time.monotonic()
                backlogs.append(fill(made, procedure, times, anew=False))
                passage = read_all(reader, backlogs[-1].rows, since_s)
                following.rows += passage.rows
                following.took_s += passage.took_s
            spent.note("following")
        for server in made:
            server.execute("FLUSH BINARY LOGS")
        stored = _packed(Path(overrides["archive"]["folder"]), len(made)) if archives else 1.0
        sent = _sent(made) - before
        spent.note("")
        again = _again(running, reader.client_id, sum(each.rows for each in backlogs))
        spent.note("again")
    written = sum(each.bytes for each in backlogs)
    return _Read(_rate(first), _rate(following), _rate(again), sent / written, stored, spent.by_part)


class _Spent:
    """Processor time of all processes, by what was read."""

    def __init__(self, made: Sequence[DatabaseServer], running: Instance, folder: Path | None) -> None:
        self._made, self._folder = made, folder
        with closing(GatewayClient(running.uri, DESTINATION)) as client:
            self._processes = processes(client)
        self.by_part: dict[str, dict[str, float]] = {}
        self._before = self._now()

    def note(self, part: str) -> None:
        """Note what was spent since the last call; empty: it does not count."""
        now = self._now()
        if part:
            self.by_part[part] = {name: round(now[name] - self._before[name], 2) for name in now}
        self._before = now

    def _now(self) -> dict[str, float]:
        locks = [] if self._folder is None else list(self._folder.glob("*.lock"))
        return {
            "servers": sum(cpu_s(server.pid) for server in self._made if server.pid is not None),
            "dump_servers": sum(cpu_s(int(lock.read_text())) for lock in locks),
            **spent_s(self._processes),
        }


def _rate(passage: Passage) -> float:
    return passage.rows / passage.took_s


def _again(running: Instance, client_id: str, rows: int) -> Passage:
    """Rewind a client id, and read everything again."""
    with closing(Operator(running.uri, DESTINATION, running.address.operator_token)) as operator:
        operator.ask(calls.Rewind(client_id, "earliest"))
    since_s = time.monotonic()
    with consumer(running) as reader:
        return read_all(reader, rows, since_s)


@contextmanager
def _archiving(archives: bool) -> Iterator[dict[str, Any]]:
    """Yield the overrides of an instance with or without an archive; what writes it is ended then."""
    with TemporaryDirectory(prefix="cg-bench-") as name:
        folder = Path(name, "archive")
        try:
            yield {"archive": {"folder": str(folder)}} if archives else {}
        finally:
            for lock in folder.glob("*.lock"):
                with suppress(ProcessLookupError):
                    os.kill(int(lock.read_text()), signal.SIGKILL)


def _packed(folder: Path, sources: int) -> float:
    """Wait until all that is closed is compressed; return the part of its binlogs' bytes that it takes."""
    archive = Archive(Disk(), folder)

    def closed() -> list[FileEntry]:
        return [entry for history in archive.histories() for entry in history.manifest.files[:-1]]

    def packed() -> bool:
        files = closed()
        return len(files) >= sources and all(entry.form is Form.ZSTD for entry in files)

    await_until(packed, "the archive was not compressed", _PACKED_S)
    return sum(entry.stored for entry in closed()) / sum(entry.size for entry in closed())


def _sent(made: Sequence[DatabaseServer]) -> int:
    return sum(int(server.execute("SHOW GLOBAL STATUS LIKE 'Bytes_sent'")[0][1]) for server in made)
