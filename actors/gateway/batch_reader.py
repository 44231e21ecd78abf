"""Read the rows of delivered batches from all shards at once, in merged order."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from canal_group.actors.gateway.joined_schemas import JoinedSchemas
from canal_group.actors.store.rows import Selection
from canal_group.actors.transport.row_client import RowClient
from canal_group.actors.transport.row_server import RowAddress
from canal_group.actors.transport.row_ticket import RowTicket
from canal_group.merge.calls.batch import Batch
from canal_group.merge.errors import CanalGroupError, UsageError
from canal_group.merge.rows.assemble import BatchRows, ShardRows
from canal_group.merge.rows.canal.entries import entries, messages
from canal_group.merge.rows.envelope import envelope
from canal_group.merge.rows.table_filter import TableFilter
from canal_group.merge.values.chunk import TableName
from canal_group.merge.values.header import Flag, Headers

#: batches with cached headers, whose rows are read without a request to the group
PLANS_MAX = 128
#: field of canal's Messages that has an entry
MESSAGES_ENTRY = 2
#: shards that are asked for rows at once
FETCHES_MAX = 32


@dataclass(frozen=True, slots=True)
class Part:
    """One of several contiguous runs of a batch, with about equally many rows.

    A part ends where a transaction ends, so that an offset range that is read again has the same parts,
    however its transactions were fragmented.

    Raises:
        UsageError: there is no such part.
    """

    index: int
    count: int

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.count:
            raise UsageError(f"There is no part {self.index} of {self.count}.")

    def of(self, headers: Headers) -> slice:
        """Return the slice of a batch's headers that belongs to this part; it may be empty."""
        if self.count == 1:
            return slice(0, len(headers))
        ends = np.flatnonzero(headers["flags"] & Flag.END) + 1
        rows = np.cumsum(headers["row_end"] - headers["row_begin"])[ends - 1]
        begin, end = (self._cut(index, ends, rows, len(headers)) for index in (self.index, self.index + 1))
        return slice(begin, end)

    def _cut(self, index: int, ends: NDArray[np.intp], rows: NDArray[np.int64], count: int) -> int:
        """Return the number of headers before the part at `index`."""
        if index == 0:
            return 0
        if index == self.count or not len(ends):
            return count
        return int(ends[np.searchsorted(rows, int(rows[-1]) * index / self.count)])


#: told of the bytes of rows when they were fetched, before they are put together
Fetched: TypeAlias = Callable[[int], None]


def not_noted(_: int) -> None:
    """Do nothing with the bytes of rows that were fetched."""


#: a batch in one part
WHOLE = Part(0, 1)


class BatchReader:
    """Rows of outstanding batches, by client. Safe to use from several threads.

    Args:
        rows_at: returns where the rows of a shard are, by its name.
        plan: asks the group for an outstanding batch: (client_id, epoch, batch_id).
        joined: has the joined schemas of tables.
    """

    def __init__(
        self,
        rows_at: Callable[[str], RowAddress],
        plan: Callable[[str, int, int], Batch],
        joined: JoinedSchemas,
    ) -> None:
        self._rows_at = rows_at
        #: by name; shards come while it runs
        self._clients: dict[str, RowClient] = {}
        self._pool = ThreadPoolExecutor(FETCHES_MAX, thread_name_prefix="fetch")
        self._plan = plan
        self._joined = joined
        self._plans: OrderedDict[tuple[str, int, int], Batch] = OrderedDict()
        self._lock = threading.Lock()

    def remember(self, client_id: str, epoch: int, batch: Batch) -> None:
        """Cache a batch's headers."""
        with self._lock:
            self._plans[client_id, epoch, batch.batch_id] = batch
            while len(self._plans) > PLANS_MAX:
                self._plans.popitem(last=False)

    def forget(self, client_id: str, epoch: int, batch_id: int | None = None) -> None:
        """Drop the cached headers of a batch (None: of all batches of the client)."""
        with self._lock:
            mine = [key for key in self._plans if key[:2] == (client_id, epoch)]
            for key in mine if batch_id is None else [(client_id, epoch, batch_id)]:
                self._plans.pop(key, None)

    def envelope(
        self,
        client_id: str,
        epoch: int,
        batch_id: int,
        table_filter: str,
        part: Part = WHOLE,
        *,
        definitions: bool = False,
        fetched: Fetched = not_noted,
    ) -> pa.Table:
        """Return all tables' changes that the filter wants, of a part; see `canal_group.merge.rows.envelope`.

        Shards send only these. `fetched` is called with their bytes before they are put together.

        Raises:
            ConfigError: the filter cannot be used.
        """
        TableFilter.of_reader(table_filter)  # refused whether or not a shard has to be asked
        selection = Selection(table_filter=table_filter)
        rows = self._rows((client_id, epoch, batch_id), selection, part, fetched)
        return envelope(rows, definitions=definitions)

    def canal(
        self,
        client_id: str,
        epoch: int,
        batch_id: int,
        table_filter: str,
        *,
        rows_max: int = 0,
        part: Part = WHOLE,
        fetched: Fetched = not_noted,
    ) -> pa.Table:
        """Return canal's entries of what the filter wants, of a part.

        See `canal_group.merge.rows.canal.entries`.

        Raises:
            ConfigError: the filter cannot be used.
        """
        TableFilter.of_reader(table_filter)
        rows = self._rows((client_id, epoch, batch_id), Selection(table_filter=table_filter), part, fetched)
        return entries(rows, rows_max=rows_max)

    def messages(
        self, client_id: str, epoch: int, batch_id: int, table_filter: str, *, transaction_ends: bool
    ) -> tuple[memoryview, int]:
        """Return canal's entries as fields of canal's Messages, and how many there are.

        Args:
            client_id: of the consumer, with its epoch.
            epoch: of the consumer.
            batch_id: an outstanding batch.
            table_filter: the tables that are wanted.
            transaction_ends: whether the begins and the ends of transactions are wanted.

        Raises:
            ConfigError: the filter cannot be used.
        """
        selection = Selection(table_filter=table_filter)
        rows = self._rows((client_id, epoch, batch_id), selection, WHOLE, not_noted)
        return messages(rows, {}, MESSAGES_ENTRY, transaction_ends=transaction_ends)

    def typed(
        self,
        client_id: str,
        epoch: int,
        batch_id: int,
        table: str,
        *,
        before: bool | Literal["updates"],
        columns: tuple[str, ...] | None = None,
        added: tuple[str, ...] | None = None,
        part: Part = WHOLE,
        schema_only: bool = False,
        fetched: Fetched = not_noted,
    ) -> pa.Table:
        """Return one table's changes, of a part, with the wanted columns; see `canal_group.merge.rows.typed`.

        With `schema_only` the table has the columns of these changes and no rows; shards send none.
        """
        name = TableName.of(table)
        selection = Selection(name, bool(before), columns, schema_only=schema_only)
        rows = self._rows((client_id, epoch, batch_id), selection, part, fetched)
        return self._joined.typed(rows, name, before=before, columns=columns, added=added)

    def _rows(
        self, key: tuple[str, int, int], selection: Selection, part: Part, fetched: Fetched
    ) -> BatchRows:
        client_id, epoch, batch_id = key
        with self._lock:
            batch = self._plans.get(key)
        if batch is None:
            batch = self._plan(*key)
            self.remember(client_id, epoch, batch)
        try:
            rows = self._fetch(batch, selection, part)
        except CanalGroupError:
            # The rings may have dropped the rows: ask the group whether the batch was acknowledged or rolled
            # back.
            self._plan(client_id, epoch, batch_id)
            raise
        fetched(sum(table.rows.nbytes for shard in rows.shards for table in shard.tables))
        return rows

    def _fetch(self, batch: Batch, selection: Selection, part: Part) -> BatchRows:
        run = part.of(batch.headers)
        headers = batch.headers[run]
        earlier = batch.headers[: run.start]
        shards = np.unique(headers["shard"][headers["rows"] > 0]).tolist()
        requests = [
            (self._client(batch.shards[shard]), _ticket(batch, headers, shard, selection)) for shard in shards
        ]
        rows = [ShardRows()] * len(batch.shards)
        # The last one is fetched right here: most batches of a quiet stream have rows of one shard only.
        others = [self._pool.submit(client.fetch, ticket) for client, ticket in requests[:-1]]
        try:
            if shards:
                client, ticket = requests[-1]
                rows[shards[-1]] = client.fetch(ticket)
            for shard, other in zip(shards, others, strict=False):
                rows[shard] = other.result()
        except CanalGroupError:
            # The error keeps this frame alive, and with it the memory that the other shards lent.
            rows.clear()
            others.clear()
            raise
        return BatchRows(
            order=headers,
            shards=tuple(rows),
            shard_names=batch.shards,
            names=batch.names,
            first_sequence=batch.start.sequence + int((earlier["row_end"] - earlier["row_begin"]).sum()),
        )

    def _client(self, shard: str) -> RowClient:
        with self._lock:
            if shard not in self._clients:
                self._clients[shard] = RowClient(shard, partial(self._rows_at, shard))
            return self._clients[shard]


def _ticket(batch: Batch, headers: Headers, shard: int, selection: Selection) -> RowTicket:
    sequences = headers["sequence"][headers["shard"] == shard]
    return RowTicket(
        batch.server_epoch, batch.generation, int(sequences[0]), int(sequences[-1]) + 1, selection
    )
