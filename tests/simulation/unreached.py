"""The branches that no seed has to reach, each with its reason, and how the list differs from a run."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from simulation.branches import Branch

LIST = Path(__file__).with_name("unreached.toml")


@dataclass(frozen=True, slots=True)
class Entry:
    """One branch of the list; without `branch` a whole function or class, without `function` a whole file."""

    file: str
    function: str = ""
    branch: str = ""
    number: int = 1

    def covers(self, branch: Branch) -> bool:
        """Return whether a branch is the listed one, or in what is listed."""
        key = branch.key
        if key.file != self.file:
            return False
        if self.branch:
            return (key.function, key.branch, key.number) == (self.function, self.branch, self.number)
        return not self.function or f"{key.function}.".startswith(f"{self.function}.")

    def __str__(self) -> str:
        number = f" ({self.number})" if self.number > 1 else ""
        return ": ".join(filter(None, (self.file, self.function, self.branch))) + number


@dataclass(frozen=True, slots=True)
class Differences:
    """The differences between a run and the list."""

    #: never reached, and not in the list
    unlisted: tuple[Branch, ...]
    #: listed, but reached
    reached: tuple[Entry, ...]
    #: listed, but not in the code
    gone: tuple[Entry, ...]


def load(path: Path = LIST) -> dict[Entry, str]:
    """Return the reason of each entry.

    Raises:
        ValueError: an entry has no reason, or is in the list twice.
    """
    reasons: dict[Entry, str] = {}
    for members in tomllib.loads(path.read_text(encoding="utf-8")).get("unreached", []):
        reason = members.pop("reason", "").strip()
        entry = Entry(**members)
        if not reason:
            raise ValueError(f"{path.name} gives no reason for {entry}")
        if entry in reasons:
            raise ValueError(f"{path.name} has {entry} twice")
        reasons[entry] = reason
    return reasons


def never_taken(branches: list[Branch], taken: list[int]) -> Iterator[Branch]:
    """Yield a file's branches that were never taken, but of those inside each other the outermost only."""
    for branch, count in zip(branches, taken, strict=True):
        if not count and (branch.within is None or taken[branch.within]):
            yield branch


def compare(
    listed: Iterable[Entry], branches: Mapping[str, list[Branch]], taken: Mapping[str, list[int]]
) -> Differences:
    """Return the differences between the list and a run.

    Args:
        listed: the entries of the list.
        branches: of each file.
        taken: how often each of them was taken.
    """
    listed = tuple(listed)
    counted = [each for file in sorted(branches) for each in zip(branches[file], taken[file], strict=True)]
    never = [branch for file in sorted(branches) for branch in never_taken(branches[file], taken[file])]
    return Differences(
        unlisted=tuple(branch for branch in never if not any(entry.covers(branch) for entry in listed)),
        reached=tuple(entry for entry in listed if any(n and entry.covers(branch) for branch, n in counted)),
        gone=tuple(entry for entry in listed if not any(entry.covers(branch) for branch, _ in counted)),
    )


def entry_of(branch: Branch) -> str:
    """Return a branch as an entry of the list, without a reason."""
    key = branch.key
    texts = {"file": key.file, "function": key.function, "branch": key.branch}
    lines = "".join(f"{name} = {_quoted(text)}\n" for name, text in texts.items())
    number = f"number = {key.number}\n" if key.number > 1 else ""
    return f'[[unreached]]\n{lines}{number}reason = ""\n'


def _quoted(text: str) -> str:
    if "'" not in text:
        return f"'{text}'"
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
