"""The consumers of a seed: their processes, restarted as they end, and the folders that they write to."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from chaos.ensemble import Ensemble
from chaos.journal import steps_of
from chaos.process import Program
from chaos.range_consumer import Progress
from chaos.schedule import COPY, RANGE_COPY

#: client id of the consumers that take batches, and of the one that keeps its position itself
CLIENT: Final = "1001"
RANGES: Final = "1002"
#: consumers of a client id, one of which is active
_COUNTS: Final = {CLIENT: 2}
#: client ids whose consumers take batches; the others keep their position themselves
OF_BATCHES: Final = (CLIENT, COPY)
_SNAPSHOTS: Final = {COPY: "initial", RANGE_COPY: "initial"}
_TESTS: Final = Path(__file__).parents[1]


class Consumers:
    """The consumers of all client ids.

    Args:
        folder: of the seed.
        ensemble: the ZooKeeper by which they find the servers.
        destination: what they consume.
    """

    def __init__(self, folder: Path, ensemble: Ensemble, destination: str) -> None:
        self._folder, self._ensemble, self._destination = folder, ensemble, destination
        #: by client id
        self.programs: dict[str, list[Program]] = {}
        #: folders of all so far, by client id, in the order of their start
        self.journals: dict[str, list[Path]] = {}
        #: those that must not be restarted
        self.stopped: set[Program] = set()

    def start(self, *client_ids: str) -> None:
        """Start the consumers of client ids."""
        for client_id in client_ids:
            self.journals[client_id] = []
            self.programs[client_id] = []
            for _ in range(_COUNTS.get(client_id, 1)):
                self.programs[client_id].append(self._started(client_id))

    def tend(self, away: Collection[object]) -> None:
        """Restart those that have ended, except those that must stay away."""
        for client_id, programs in self.programs.items():
            for index, program in enumerate(programs):
                if program.pid is None and program not in away and program not in self.stopped:
                    programs[index] = self._started(client_id)

    def end(self) -> None:
        """End them in good order, so that their journals are complete."""
        for programs in self.programs.values():
            for program in programs:
                program.end()

    def subscribed(self) -> bool:
        """Return whether each client id has subscribed, with a position for each shard."""
        return all(
            any(step.what == "subscribed" for folder in folders for step in steps_of(folder))
            for folders in self.journals.values()
        )

    def positions(self) -> Iterator[str]:
        """Yield the positions that some keep themselves; empty: it is not known."""
        for client_id in self.journals:
            if client_id not in OF_BATCHES:
                yield Progress.read(self._progress(client_id)).done

    def _started(self, client_id: str) -> Program:
        """Start a consumer with its own folder."""
        folder = self._folder / f"consumer-{client_id}-{len(self.journals[client_id])}"
        self.journals[client_id].append(folder)
        options = {
            "zookeeper": self._ensemble.hosts,
            "destination": self._destination,
            "client": client_id,
            "folder": str(folder),
            "snapshot": _SNAPSHOTS.get(client_id, "never"),
        }
        module = "chaos.recorder"
        if client_id not in OF_BATCHES:
            module = "chaos.range_consumer"
            options["progress"] = str(self._progress(client_id))
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        command = [sys.executable, "-m", module, *words]
        program = Program(command, folder.with_suffix(".log"), {"PYTHONPATH": str(_TESTS)})
        program.start()
        return program

    def _progress(self, client_id: str) -> Path:
        return self._folder / f"progress-{client_id}"
