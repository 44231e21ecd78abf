"""Joined schemas: what a gateway knows of tables beyond the rows of one batch.

A batch may have rows of some shards only, and of old versions only. So that its columns do not come and go, a
typed table has also the columns that other shards' tables have, and those of versions that were delivered
before: see `canal_group.merge.rows.joined`.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTime
from typing import Any, Final, Literal

import pyarrow as pa

from canal_group.actors.process.stranger_log import stranger_log
from canal_group.merge.errors import CanalGroupError, SchemaMismatch
from canal_group.merge.rows.assemble import BatchRows
from canal_group.merge.rows.chosen_types import TypeOverrides
from canal_group.merge.rows.joined import Definition, joined
from canal_group.merge.rows.typed import definitions, of_table, typed
from canal_group.merge.values.chunk import TableName

#: tables whose versions are kept; the one that was read longest ago goes first
TABLES_MAX: Final = 4_096
#: versions of a table that are kept; the one that was read longest ago goes first
VERSIONS_MAX: Final = 64
#: joined schemas that are kept; one more, and all are made again
JOINED_MAX: Final = 1_024
#: how long the first rows of a table wait for what the shards show of it, seconds
SHOWN_WAIT_S: Final = 1.0
#: how long after shards could not show a table they are asked again, seconds
SHOWN_AGAIN_S: Final = 30.0
#: how long chosen types are used before the group is asked again, seconds
CHOSEN_FOR_S: Final = 2.0

_log = stranger_log(__name__)


class _Table:
    def __init__(self, shown: Future[list[Definition] | None]) -> None:
        #: definitions shown by the shards; None: no shard could show any
        self.shown = shown
        self.asked_at_s = time.monotonic()
        #: the versions whose rows were delivered, by their columns as bytes
        self.versions: OrderedDict[bytes, Definition] = OrderedDict()

    @property
    def unknown(self) -> bool:
        """Whether the shards were asked, and could not show it."""
        return self.shown.done() and self.shown.result() is None


class JoinedSchemas:
    """Makes typed tables with joined schemas. Safe to use from several threads.

    Args:
        chosen_types: asks the group for the types that operators chose.
        definitions: asks the shards for a table's columns.
    """

    def __init__(
        self, chosen_types: Callable[[], TypeOverrides], definitions: Callable[[TableName], list[Definition]]
    ) -> None:
        self._ask_chosen = chosen_types
        self._ask_shards = definitions
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="definitions")
        self._tables: OrderedDict[TableName, _Table] = OrderedDict()
        #: by what they are made of: to make one costs as much as thousands of rows
        self._joined: dict[tuple[Any, ...], pa.Schema] = {}
        self._chosen: TypeOverrides | None = None
        self._chosen_at_s = 0.0
        self._lock = threading.Lock()

    def typed(
        self,
        rows: BatchRows,
        name: TableName,
        *,
        before: bool | Literal["updates"],
        columns: Collection[str] | None,
        added: Collection[str] | None,
    ) -> Any:
        """Return one table's changes with the joined schema; see `canal_group.merge.rows.typed.typed`.

        Who names columns has a schema of its own, and gets only those that the rows at hand have.

        Raises:
            SchemaMismatch: as `canal_group.merge.rows.typed.typed`.
            ServerUnavailable: the group does not answer.
        """
        known = self._definitions(name, rows) if columns is None and added is None else []
        types = self._chosen_types().of(name)
        how: dict[str, Any] = {"before": before, "columns": columns, "added": added, "known": known}
        how["join"] = self._join
        try:
            return typed(rows, name, chosen=types, **how)
        except SchemaMismatch:
            # An operator may have chosen a type since.
            chosen_now = self._chosen_types(0).of(name)
            if chosen_now == types:
                raise
            return typed(rows, name, chosen=chosen_now, **how)

    def _join(
        self,
        table: TableName,
        definitions: Sequence[Definition],
        known: Sequence[Definition],
        chosen: Mapping[str, Any],
    ) -> pa.Schema:
        """Return the joined schema, see `joined`; it may be kept from before."""
        key = table, _bytes_of(definitions), _bytes_of(known), tuple(chosen.items())
        schema = self._joined.get(key)
        if schema is None:
            schema = joined(table, definitions, known, chosen)
            with self._lock:
                if len(self._joined) >= JOINED_MAX:
                    self._joined.clear()
                self._joined[key] = schema
        return schema

    def _chosen_types(self, used_for_s: float = CHOSEN_FOR_S) -> TypeOverrides:
        with self._lock:
            types, now_s = self._chosen, time.monotonic()
            if types is not None and now_s - self._chosen_at_s < used_for_s:
                return types
        answer = self._ask_chosen()
        with self._lock:
            self._chosen, self._chosen_at_s = answer, now_s
        return answer

    def _definitions(self, name: TableName, rows: BatchRows) -> list[Definition]:
        """Return the known definitions of a table without those of a batch's rows, and remember these."""
        versions = definitions(part for part in of_table(rows, name) if len(part[1]))
        if not versions:
            return []
        with self._lock:
            table = self._tables.get(name)
            if table is None:
                table = self._tables[name] = _Table(self._pool.submit(self._shown, name))
                while len(self._tables) > TABLES_MAX:
                    self._tables.popitem(last=False)
            elif table.unknown and time.monotonic() - table.asked_at_s > SHOWN_AGAIN_S:
                table.shown, table.asked_at_s = self._pool.submit(self._shown, name), time.monotonic()
            self._tables.move_to_end(name)
            for version in versions:
                columns = version.columns.serialize().to_pybytes()
                table.versions.setdefault(columns, version)
                table.versions.move_to_end(columns)
                if len(table.versions) > VERSIONS_MAX:
                    table.versions.popitem(last=False)
            delivered = list(table.versions.values())
            shown = table.shown
        try:
            return [*delivered, *(shown.result(SHOWN_WAIT_S) or ())]
        except NotInTime:
            return delivered

    def _shown(self, name: TableName) -> list[Definition] | None:
        try:
            return self._ask_shards(name)
        except CanalGroupError as error:
            # Rows bring their columns; a batch then lacks those of shards that have no row in it.
            _log.warning("table=%s is not known as its shards show it: %s", name, error)
            return None


def _bytes_of(definitions: Iterable[Definition]) -> tuple[bytes, ...]:
    """Return the different columns of definitions, with the metadata without which schemas compare."""
    different: list[pa.Schema] = []
    for each in definitions:
        if not any(each.columns.equals(other, check_metadata=True) for other in different):
            different.append(each.columns)
    return tuple(columns.serialize().to_pybytes() for columns in different)
