"""Profile: where the processor time of running processes goes, by steps of the pipeline.

py-spy samples the stacks of a process from outside, those of threads that run. A sample counts for the step
of its innermost frame that a step's pattern matches, so that time in the interpreter or a library counts for
the code of ours that called it, and for asyncio only if nobody else was there.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

#: samples a second of each process
RATE = 100
#: how long py-spy may take to end after the time that it was told, seconds
_END_S = 30.0
#: step -> what its frames look like: "function (file)"
_STEPS = {
    "state machine": r"\(canal_group/merge/(?!rows|values|calls)|\(merge/(?!rows|values|calls)",
    "rows of a batch": r"merge/rows|gateway/batch_reader",
    "headers and values": r"merge/values|merge/calls",
    "RPC": r"transport/rpc_",
    "shared memory": r"shared_memory",
    "rows by Flight": r"transport/row_|store/rows",
    "ring": r"store/ring|store/segments",
    "binlog": r"(^|[ (/])binlog/",
    "report of a shard": r"actors/shard/",
    "group": r"actors/group/",
    "gateway": r"actors/gateway/|actors/admission/",
    "consumer": r"canal_group/(client|gateway)/",
    "cursor store": r"actors/meta/",
    "Ray": r"[/(]ray/",
    "event loop": r"asyncio/|selectors\.py|concurrent/futures|threading\.py",
}
_PATTERNS = {step: re.compile(pattern) for step, pattern in _STEPS.items()}


class Samples:
    """What was sampled of some processes."""

    def __init__(self) -> None:
        #: by process: samples of each step, and of each function
        self.steps: dict[str, Counter[str]] = {}
        self.functions: dict[str, Counter[str]] = {}

    def read(self, name: str, lines: Iterator[str]) -> None:
        """Take py-spy's raw format: a stack, outermost first, with ";" between frames, and a count."""
        steps, functions = Counter[str](), Counter[str]()
        for line in lines:
            stack, _, count = line.rstrip().rpartition(" ")
            frames = stack.split(";")
            steps[_step(frames)] += int(count)
            functions[frames[-1]] += int(count)
        self.steps[name], self.functions[name] = steps, functions

    def shares(self, name: str) -> dict[str, float]:
        """Return each step's share of a process's samples."""
        total = sum(self.steps[name].values()) or 1
        return {step: count / total for step, count in self.steps[name].most_common()}


def _step(frames: list[str]) -> str:
    for frame in reversed(frames):
        for step, pattern in _PATTERNS.items():
            if pattern.search(frame):
                return step
    return "others"


class Sampler(threading.Thread):
    """Samples processes one after the other, so that little is added to what they cost.

    Args:
        pids: the processes, by name.
        seconds: for how long each is sampled.

    `join` it, then read `samples`; `error` is what went wrong.
    """

    def __init__(self, pids: Mapping[str, int], seconds: float) -> None:
        super().__init__(name="sampler", daemon=True)
        self.samples = Samples()
        self.error = ""
        self._pids, self._seconds = pids, seconds
        self._program = shutil.which("py-spy") or str(Path(sys.executable).with_name("py-spy"))

    def run(self) -> None:
        """Sample every process once."""
        with TemporaryDirectory(prefix="cg-bench-") as folder:
            for name, pid in self._pids.items():
                file = Path(folder, name)
                command = [self._program, "record", "--nonblocking", "--rate", str(RATE), "--format", "raw"]
                command += ["--duration", str(max(1, round(self._seconds))), "-o", str(file), "-p", str(pid)]
                try:
                    subprocess.run(
                        command, check=True, capture_output=True, text=True, timeout=self._seconds + _END_S
                    )
                except (OSError, subprocess.SubprocessError) as error:
                    self.error = f"{name} cannot be sampled: {error} {getattr(error, 'stderr', '')}"
                    return
                with file.open(encoding="utf-8") as lines:
                    self.samples.read(name, lines)
