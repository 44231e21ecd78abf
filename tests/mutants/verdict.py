"""Verdicts: the outcome of each mutant, counted and reported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from mutants.mutant import Key


class Fate(Enum):
    """The outcome of a mutant."""

    #: a test failed
    KILLED = "killed"
    #: a test took too much processor time, memory or time
    EXCEEDED = "exceeded"
    SURVIVED = "survived"
    #: no test calls its function
    UNTESTED = "untested"
    #: the time limit was reached
    NOT_RUN = "not run"


#: the outcomes that count as detected
NOTICED = (Fate.KILLED, Fate.EXCEEDED)


@dataclass(frozen=True)
class Verdict:
    """The outcome of one mutant, and the test that decided it."""

    key: Key
    line: int
    fate: Fate
    test: str = ""

    def json(self) -> dict[str, object]:
        """Return it for JSON."""
        return {
            "file": self.key.file,
            "line": self.line,
            "function": self.key.function,
            "was": self.key.was,
            "now": self.key.now,
            "number": self.key.number,
            "fate": self.fate.value,
            "test": self.test,
        }


def not_noticed(verdicts: Sequence[Mapping[str, Any]]) -> set[Key]:
    """Return the undetected mutants, from what `Verdict.json` returned for each."""
    noticed = {fate.value for fate in NOTICED}
    return {
        Key(each["file"], each["function"], each["was"], each["now"], each["number"])
        for each in verdicts
        if each["fate"] not in noticed
    }


def score(verdicts: Sequence[Verdict]) -> tuple[int, int]:
    """Return (noticed, run)."""
    run = [verdict for verdict in verdicts if verdict.fate is not Fate.NOT_RUN]
    return sum(verdict.fate in NOTICED for verdict in run), len(run)


def table(verdicts: Sequence[Verdict]) -> list[str]:
    """Return a line per file, and one for all files."""
    files = Counter(verdict.key.file for verdict in verdicts)
    lines = [_line(file, [each for each in verdicts if each.key.file == file]) for file in sorted(files)]
    return [*lines, _line("all", verdicts)]


def _line(name: str, verdicts: Sequence[Verdict]) -> str:
    noticed, run = score(verdicts)
    missing = f"  {len(verdicts) - run} not run" if run < len(verdicts) else ""
    percent = f"{100 * noticed / run:5.1f} %" if run else "      -"
    return f"{name:28} {noticed:5}/{run:<5} {percent}{missing}"
