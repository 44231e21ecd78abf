"""The known surviving mutants, each with the reason why no test has to kill it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from support import reasoned_list

from mutants.mutant import Key

LIST = Path(__file__).with_name("survivors.toml")


@dataclass(frozen=True)
class Differences:
    """The differences between a run and the list."""

    #: survived, and not in the list
    unlisted: tuple[Key, ...]
    #: listed, but killed
    killed: tuple[Key, ...]
    #: listed, but no longer possible
    gone: tuple[Key, ...]


def load(path: Path = LIST) -> dict[Key, str]:
    """Return the reason of each listed survivor.

    Raises:
        ValueError: an entry has no reason, or is in the list twice.
    """
    return reasoned_list.load(path, "survivor", Key)


def compare(
    listed: Collection[Key],
    *,
    survived: Collection[Key],
    killed: Collection[Key],
    possible: Collection[Key],
    files: Collection[str],
) -> Differences:
    """Return the differences between a run and the list.

    Args:
        listed: the mutants in the list.
        survived: mutants that no test detected.
        killed: mutants that a test detected; a mutant that was not run is in neither set.
        possible: all mutants of the files.
        files: the files of the run; entries for other files are ignored.
    """
    mine = [key for key in listed if key.file in files]
    return Differences(
        unlisted=tuple(key for key in survived if key not in listed),
        killed=tuple(key for key in mine if key in killed),
        gone=tuple(key for key in mine if key not in possible),
    )


def entries(keys: Iterable[Key]) -> str:
    """Return mutants as entries of the list, without a reason."""
    return "\n".join(_entry(key) for key in keys)


def _entry(key: Key) -> str:
    return reasoned_list.written(
        "survivor", key.number, file=key.file, function=key.function, was=key.was, now=key.now
    )
