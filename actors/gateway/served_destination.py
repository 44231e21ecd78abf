"""A served destination of a gateway, from the addition to the withdrawal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa

from canal_group.actors.admission.calls import ALL_QUESTIONS_MAX, QUESTIONS_MAX, Calls
from canal_group.actors.gateway.batch_reader import BatchReader, Fetched, Part, not_noted
from canal_group.actors.gateway.canal.destination import CanalDestination
from canal_group.actors.gateway.canal.packets import COUNTED as CANAL_PACKETS
from canal_group.actors.gateway.gateway_counters import GatewayCounters
from canal_group.actors.gateway.group_handle import GroupHandle
from canal_group.actors.gateway.joined_schemas import JoinedSchemas
from canal_group.actors.gateway.operator_requests import OperatorRequests
from canal_group.actors.gateway.requests import Requests
from canal_group.actors.gateway.shard_actors import ShardActors
from canal_group.actors.gateway.wiring import DestinationWiring
from canal_group.actors.process.clock import clock_s
from canal_group.merge.calls.batch import Batch
from canal_group.merge.calls.call import CALLS
from canal_group.merge.calls.consumers import AckAndGet, Get, Plan
from canal_group.merge.calls.values import number
from canal_group.merge.whole import Bounds

#: as which streams of rows are counted
ROWS = "rows"
#: bytes that the rows of a batch have at most in the rings if they come with the answer to its get
ROWS_WITH_GET_BYTES_MAX: Final = 64 << 10
#: into how many parts a caller may divide a batch
PARTS: Final = Bounds(0, 1 << 16, "parts")


def new_counters() -> GatewayCounters:
    """Return counters of all that a gateway answers."""
    return GatewayCounters({*CALLS, ROWS, *CANAL_PACKETS})


class ServedDestination:
    """The parts of one launch of a destination. Safe to use from several threads.

    Args:
        wiring: of the destination; it has actors.
        describe: returns the gateway's state as a JSON object, with these counters.
    """

    def __init__(
        self, wiring: DestinationWiring, describe: Callable[[GatewayCounters], dict[str, Any]]
    ) -> None:
        actors = wiring.actors
        assert actors is not None, "it is not absent"
        self.wiring = wiring
        self.counters = counters = new_counters()
        self.group = group = GroupHandle(actors.group)
        shards = ShardActors(actors.shard_actors, actors.shards)
        # None of the parts refers to this: their threads end with them when the destination is withdrawn.
        operator = OperatorRequests(self.name, group, shards, partial(describe, counters))
        joined = JoinedSchemas(operator.questions.chosen_types, operator.questions.definitions)
        self.rows = BatchReader(shards.rows_at, lambda *key: group.ask(Plan(*key)), joined)
        self.requests = Requests(
            self.name, wiring.lease_s, group, operator, self.rows, snapshot=wiring.snapshot
        )
        #: questions to its sources and shards that are being answered
        self.questions = Calls(QUESTIONS_MAX, ALL_QUESTIONS_MAX)
        #: None without canal's protocol
        self.canal: CanalDestination | None = None
        if wiring.canal is not None:
            self.canal = CanalDestination(
                self.name,
                wiring.canal.login,
                wiring.canal.transaction_ends,
                wiring.lease_s,
                group,
                self.requests,
                self.rows,
                counters,
            )

    @property
    def name(self) -> str:
        """The destination's name."""
        return self.wiring.destination

    def get(self, call: Get | AckAndGet) -> tuple[dict[str, Any] | None, list[pa.Buffer]]:
        """Return the answer to a get, and the rows that come with it, as Arrow streams: one, or none.

        Raises:
            CanalGroupError: the group's error, or ServerUnavailable.
        """
        asked_at_s = clock_s()
        cursor, batch = self.requests.get(call)
        answer, streams = None, []
        if batch is None:
            self.counters.no_batch()
        else:
            answer = self.requests.delivered(call, batch)
            streams = self._rows_with(call, batch, (asked_at_s, batch.lease_s))
        if cursor is not None:
            answer = {"cursor": cursor.to_json(), "batch": answer}
        return answer, streams

    def _rows_with(
        self, call: Get | AckAndGet, batch: Batch, answered: tuple[float, float]
    ) -> list[pa.Buffer]:
        """Return the rows that come with a batch; `answered` as of `DeliveryLease`."""
        if call.rows is None or int(batch.headers["bytes"].sum()) > ROWS_WITH_GET_BYTES_MAX:
            return []
        key = call.client_id, call.epoch, batch.batch_id
        delivery_lease = self.group.delivery_lease(*key, answered)
        ticket = dict(zip(("client_id", "epoch", "batch_id"), key, strict=True))
        try:
            table = self.table({**call.rows, **ticket})
            stream = pa.BufferOutputStream()
            with pa.ipc.new_stream(stream, table.schema) as writer:
                writer.write_table(table)
            delivery_lease.check()
        except Exception:  # noqa: BLE001  its consumer asks for the rows by a ticket, and is told why not
            return []
        return [stream.getvalue()]

    def table(self, ticket: Mapping[str, Any], fetched: Fetched = not_noted) -> pa.Table:
        """Return the rows of a ticket; a delivery lease is needed to send them.

        Args:
            ticket: names a batch, and what is wanted of it.
            fetched: see `BatchReader.envelope`.

        Raises:
            CanalGroupError: they cannot be read, or the ticket is for what is not there.
            ArithmeticError, LookupError, TypeError, ValueError: it is malformed.
        """
        table = self._read(ticket, fetched, *key_of(ticket)).unify_dictionaries()
        self.counters.sent(table.num_rows, table.nbytes)
        return table

    def _read(
        self, ticket: Mapping[str, Any], fetched: Fetched, client_id: str, epoch: int, batch_id: int
    ) -> pa.Table:
        key, rows = (client_id, epoch, batch_id), self.rows
        index, count = ticket.get("part", (0, 1))
        part = Part(number("part", index), number("part", count, PARTS))
        if ticket["format"] == "envelope":
            table_filter = self.requests.filter_of(client_id, epoch)
            definitions = bool(ticket.get("definitions"))
            return rows.envelope(*key, table_filter, part, definitions=definitions, fetched=fetched)
        if ticket["format"] == "canal":
            rows_max = 0 if ticket.get("rows_max") is None else number("rows_max", ticket["rows_max"])
            table_filter = self.requests.filter_of(client_id, epoch)
            return rows.canal(*key, table_filter, rows_max=rows_max, part=part, fetched=fetched)
        return rows.typed(
            *key,
            str(ticket["table"]),
            before="updates" if ticket.get("before") == "updates" else bool(ticket.get("before")),
            columns=_names(ticket.get("columns")),
            added=_names(ticket.get("added")),
            part=part,
            schema_only=bool(ticket.get("schema_only")),
            fetched=fetched,
        )

    def close(self) -> None:
        """End the connection to the group: what still answers for it raises ServerUnavailable."""
        self.group.close()


def key_of(ticket: Mapping[str, Any]) -> tuple[str, int, int]:
    """Return the batch that a ticket is for: client id, which was checked, epoch and batch id."""
    return ticket["client_id"], number("epoch", ticket["epoch"]), number("batch_id", ticket["batch_id"])


def _names(values: Sequence[Any] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(map(str, values))
