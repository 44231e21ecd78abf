"""Report: what became of each entry of canal's files, one answer or more for each."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from enum import Enum

from canal_group.conf.sentence import shown
from canal_group.programs.migration.canal_files.properties import Entry
from canal_group.programs.migration.canal_files.secret_text import is_secret, masked


class Kind(Enum):
    """What an answer asks of the operator; the value is what a report line begins with."""

    #: it became a setting, or is what holds here anyway
    SETTING = "ok"
    #: it has no setting here; the answer says why
    NOTE = "note"
    #: it holds only after somebody has decided or done something
    ACT = "do"


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of an entry."""

    entry: Entry
    kind: Kind
    text: str
    #: the entry's value as it may be shown
    value: str

    def __str__(self) -> str:
        entry = self.entry
        return f"{self.kind.value:<5} {entry.location}: {entry.key} = {self.value}: {self.text}"


@dataclass(slots=True)
class Report:
    """The answers, by entry.

    Args:
        hidden: keys whose values are secrets, though their names do not say so.
    """

    hidden: Collection[str] = frozenset()
    _answers: dict[Entry, list[Answer]] = field(default_factory=dict)

    def add(self, entry: Entry, kind: Kind, text: str) -> None:
        """Add an answer."""
        answers = self._answers.setdefault(entry, [])
        answer = Answer(entry, kind, text, self._value(entry))
        if answer not in answers:
            answers.append(answer)

    def setting(self, entry: Entry | None, text: str) -> None:
        """Report the setting made of an entry; ignore None."""
        if entry is not None:
            self.add(entry, Kind.SETTING, text)

    def note(self, entry: Entry | None, text: str) -> None:
        """Say why an entry has no setting here."""
        if entry is not None:
            self.add(entry, Kind.NOTE, text)

    def act(self, entry: Entry | None, text: str) -> None:
        """Say what is left to do for an entry."""
        if entry is not None:
            self.add(entry, Kind.ACT, text)

    def has(self, entry: Entry) -> bool:
        """Return whether an entry has an answer."""
        return entry in self._answers

    def of(self, file: str) -> Iterator[Answer]:
        """Yield the answers for a file's entries, in the order of lines."""
        own = (entry for entry in self._answers if entry.file == file)
        for entry in sorted(own, key=lambda each: (each.line, each.key)):
            yield from self._answers[entry]

    @property
    def left_to_do(self) -> list[Answer]:
        """The answers that ask for something, in the order of files and lines."""
        return [answer for answers in self._answers.values() for answer in answers if answer.kind is Kind.ACT]

    def _value(self, entry: Entry) -> str:
        if not entry.raw:
            return "(empty)"
        hidden = is_secret(entry.key) or entry.key in self.hidden
        return "(not shown)" if hidden else shown(masked(entry.raw))
