"""Confirming: definitions that were followed through statements, held against what the source shows.

A followed table is asked. The answer counts at a position that no later statement on the table comes before:
the stream has read on to where the binlog ended with the answer. A table whose first rows are read while the
shard is nearly caught up is asked at once, and the statements up to that end are read ahead.
"""

from __future__ import annotations

import logging
import time
from typing import NamedTuple

from canal_group.binlog.history.facts import LogPosition
from canal_group.binlog.history.history import SchemaHistory
from canal_group.binlog.schema.catalog_entry import ShownTable
from canal_group.binlog.schema.definition import SourceName
from canal_group.binlog.server.definitions.learning import Learning
from canal_group.binlog.server.definitions.present import PresentReader
from canal_group.merge.errors import RetryableError
from canal_group.merge.values.position import Position, file_order

_log = logging.getLogger(__name__)

#: how often followed tables are asked, seconds; how many at a time
EVERY_S, BATCH = 1.0, 100
#: bytes of binlog that a shard may be behind, to count as nearly caught up
NEAR_BYTES = 16 << 20


class _Answer(NamedTuple):
    """What a source showed of a table between two looks at the end of its binlog."""

    shown: ShownTable
    before: LogPosition
    after: LogPosition


class Confirming:
    """Confirms definitions of one history, for one stream; `begin` and `position` are as in `Learning`.

    Args:
        reader: asks the server.
        learning: reads statements ahead.
    """

    def __init__(self, reader: PresentReader, learning: Learning) -> None:
        self._reader = reader
        self._learning = learning
        self._answers: dict[SourceName, _Answer] = {}
        #: tables that the source does not show, and the last statement on each until then
        self._unshown: dict[SourceName, LogPosition | None] = {}
        self._next_s = 0.0

    def confirm(
        self,
        history: SchemaHistory,
        name: SourceName,
        begin: Position,
        position: LogPosition,
        within_s: float,
    ) -> bool:
        """Compare a table before its first rows are handed on; return whether it is confirmed.

        It is not if the shard is not nearly caught up, if a later statement has changed the table already, or
        if the server does not answer in time: it is compared later then.

        Raises:
            DefinitionContradicted: the source shows it otherwise.
        """
        try:
            with self._reader.asking(within_s) as asked:
                before = asked.end()
                if not _is_near(position, before):
                    return False
                shown, after = asked.show(name), asked.end()
            if shown is None:
                return False
            self._learning.catch_up(history, begin, position, after)
        except RetryableError as error:
            _log.warning(
                "the definition of %s is compared later: %s",
                name,
                error,
                extra={"shard": self._reader.address.name},
            )
            return False
        last = history.last_touch(name)
        if last is not None and not (position.reaches(last) and before.reaches(last)):
            return False
        return self._compare(history, shown, position)

    def confirm_all(self, history: SchemaHistory, position: LogPosition) -> bool:
        """Compare the tables that were followed, as far as the stream has come to where they were asked.

        Returns:
            Whether any is confirmed.

        Raises:
            DefinitionContradicted: the source shows one otherwise.
        """
        names = history.followed()
        if not names:
            self._answers.clear()
            self._unshown.clear()
            return False
        some = self._compare_answered(history, position)
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + EVERY_S
            try:
                self._ask(history, [name for name in names if self._is_open(history, name)][:BATCH], position)
            except RetryableError as error:
                _log.debug("followed tables are not compared: %s", error)
            some |= self._compare_answered(history, position)
        return some

    def _is_open(self, history: SchemaHistory, name: SourceName) -> bool:
        """Return whether a table has to be asked: it was not, or a statement has touched it since."""
        if name in self._unshown and self._unshown[name] == history.last_touch(name):
            return False
        return name not in self._answers

    def _ask(self, history: SchemaHistory, names: list[SourceName], position: LogPosition) -> None:
        if not names:
            return
        with self._reader.asking() as asked:
            before = asked.end()
            if not _is_near(position, before):
                return
            shown = {name: asked.show(name) for name in names}
            after = asked.end()
        for name, table in shown.items():
            if table is not None:
                self._answers[name] = _Answer(table, before, after)
            else:
                self._unshown[name] = history.last_touch(name)

    def _compare_answered(self, history: SchemaHistory, position: LogPosition) -> bool:
        some = False
        for name, answer in list(self._answers.items()):
            if not position.reaches(answer.after):
                continue
            del self._answers[name]
            last = history.last_touch(name)
            if history.is_followed(name) and (last is None or answer.before.reaches(last)):
                some |= self._compare(history, answer.shown, position)
        return some

    def _compare(self, history: SchemaHistory, shown: ShownTable, position: LogPosition) -> bool:
        """Compare a table with what the source shows.

        Raises:
            DefinitionContradicted: they differ.
        """
        with history.lock:
            wrong = history.confirm(shown, position)
        if wrong is not None:
            raise wrong
        return True


def _is_near(position: LogPosition, end: LogPosition) -> bool:
    """Return whether there is little between a position and the end of the binlog."""
    (base, number), (end_base, end_number) = file_order(position.file), file_order(end.file)
    if base != end_base:
        return False
    behind = end.offset - position.offset if number == end_number else end.offset
    return number <= end_number <= number + 1 and behind <= NEAR_BYTES
