"""The recent log: the last lines that this server logged of each of its instances, its actors' lines too.

It is kept in memory, bounded, and begins anew with the server. The whole log is what `serve` prints.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Any, Final

from canal_group.actors.process.log_line import entry_of, json_line


@dataclass(frozen=True, slots=True)
class RecentLogLimits:
    """Limits of the recent log."""

    #: lines that are kept of an instance, and their length as JSON; the oldest are removed first
    kept_lines_max: int = 2_000
    kept_chars_max: int = 1 << 20
    #: instances of which lines are kept: those that a folder gains and loses must not add up
    instances_max: int = 256
    #: lines of one page, and their length as JSON; a page has at least one line of any length
    page_lines_max: int = 500
    page_chars_max: int = 256 << 10


LIMITS: Final = RecentLogLimits()


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    entry: dict[str, Any]
    chars: int


@dataclass(slots=True)
class _Lines:
    kept: deque[_Line] = field(default_factory=deque)
    chars: int = 0


class RecentLog(logging.Handler):
    """Keeps the last lines of each instance. Safe to use from several threads.

    A line belongs to the instance that its record names as `destination`; others are not kept.

    Args:
        limits: of what is kept, and of a page.
    """

    def __init__(self, limits: RecentLogLimits = LIMITS) -> None:
        super().__init__()
        self._limits = limits
        self._of: OrderedDict[str, _Lines] = OrderedDict()
        self._number = 0
        assert self.lock is not None, "`logging` holds it while a record is kept"
        self._reading = self.lock

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record's line."""
        entry = entry_of(record, {})
        destination = entry.get("destination")
        if destination is None:
            return
        lines = self._of.setdefault(str(destination), _Lines())
        self._of.move_to_end(str(destination))
        if len(self._of) > self._limits.instances_max:
            self._of.popitem(last=False)
        self._number += 1
        line = _Line(self._number, entry, len(json_line(entry)))
        lines.kept.append(line)
        lines.chars += line.chars
        limits = self._limits
        while len(lines.kept) > limits.kept_lines_max or (
            lines.chars > limits.kept_chars_max and len(lines.kept) > 1
        ):
            lines.chars -= lines.kept.popleft().chars

    def page(self, destination: str, lines_max: int, before: int | None = None) -> dict[str, Any]:
        """Return the last lines of an instance, the oldest first, as a JSON object.

        Args:
            destination: the instance.
            lines_max: at most so many lines, and at most `page_lines_max` of the limits.
            before: only lines before this number; None: up to the last one.

        Returns:
            `lines`, each with its `number`, which grows with every line of the server, and `before`, which
            asks for the page before this one; None if nothing older is kept.
        """
        found: deque[_Line] = deque()
        chars, older = 0, False
        with self._reading:
            lines = self._of.get(destination, _Lines()).kept
            for line in reversed(lines):
                if before is not None and line.number >= before:
                    continue
                full = len(found) >= min(lines_max, self._limits.page_lines_max)
                if full or (found and chars + line.chars > self._limits.page_chars_max):
                    older = True
                    break
                chars += line.chars
                found.appendleft(line)
        return {
            "lines": [{"number": line.number, **line.entry} for line in found],
            "before": found[0].number if older else None,
        }
