"""The gateway actor: the Arrow Flight server for consumers and operators.

Requests are Flight actions with a JSON object as body, each answered with one JSON object: `{"value": ...}`
or `{"error": ...}`. Rows are Flight streams: `do_get` with a JSON ticket names an outstanding batch and the
format. An error of a stream travels as JSON in the Flight error's `extra_info`.

The gateway has no durable state: batches and cursors belong to the group, rows to the shards. It may be
killed at any time, and it may wake from a long pause: no message of rows is sent without a delivery lease,
the group's confirmation that its server is the active one.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import flight

from canal_group.actors.admission.access import Grant, Grants
from canal_group.actors.admission.audit_log import AuditLog, audited
from canal_group.actors.admission.calls import ALL_QUESTIONS_MAX, QUESTIONS_MAX, Calls
from canal_group.actors.admission.connection_guard import ConnectionGuard
from canal_group.actors.admission.gateway_tls import GatewayTls
from canal_group.actors.admission.token_middleware import TokenMiddleware, grant_of
from canal_group.actors.gateway.batch_reader import BatchReader, Part
from canal_group.actors.gateway.canal.packets import COUNTED as CANAL_PACKETS
from canal_group.actors.gateway.canal.server import CanalServer
from canal_group.actors.gateway.canal.service import CanalService
from canal_group.actors.gateway.canal.wiring import CanalWiring
from canal_group.actors.gateway.delivery_lease import DeliveryLease
from canal_group.actors.gateway.gateway_counters import GatewayCounters
from canal_group.actors.gateway.group_handle import GroupHandle
from canal_group.actors.gateway.joined_schemas import JoinedSchemas
from canal_group.actors.gateway.operator_requests import OperatorRequests
from canal_group.actors.gateway.requests import Requests, seen_by
from canal_group.actors.gateway.shard_actors import ShardActors
from canal_group.actors.process.imports import freeze_imports
from canal_group.actors.process.log import ActorLog
from canal_group.actors.store.rows import Payload
from canal_group.actors.transport.flight_errors import flight_error, refusal
from canal_group.actors.transport.shared_memory_server import Offer, SharedMemoryServer
from canal_group.conf.listeners.gateway_settings import GatewayBounds
from canal_group.merge.calls.body import call_of
from canal_group.merge.calls.call import CALLS, Call, Right
from canal_group.merge.calls.consumers import Get, OpenSharedMemory, Plan, Status
from canal_group.merge.calls.operators import Operation
from canal_group.merge.calls.values import client_id, whole
from canal_group.merge.errors import UsageError

#: as which streams of rows are counted
ROWS = "rows"


@dataclass(frozen=True, slots=True)
class GatewayWiring:
    """The settings of a gateway."""

    #: where to listen, "grpc://host:port", or "grpc+tls://host:port" with TLS
    location: str
    #: the one destination that it serves
    destination: str
    #: the clients and their rights
    grants: Grants
    #: None: connections are not encrypted
    tls: GatewayTls | None
    #: how long a consumer may be silent, seconds
    lease_s: float
    #: what callers may cost
    bounds: GatewayBounds
    #: where changes are logged; None: nowhere
    audit_log: Path | None = None
    #: canal's protocol beside it; None: it is not served
    canal: CanalWiring | None = None


class GatewayServer(flight.FlightServerBase):  # type: ignore[misc]  # pyarrow is untyped
    """The Flight server of one destination.

    Args:
        wiring: what it is made of.
        group: name of the group actor.
        shard_actors: what the shard actors' names begin with; the shard's name follows.
        shards: names of the shards that were launched.
    """

    def __init__(self, wiring: GatewayWiring, group: str, shard_actors: str, shards: Sequence[str]) -> None:
        self._destination = wiring.destination
        self._reply_bytes_max = wiring.bounds.reply_bytes_max
        self._group = GroupHandle(group)
        actors = ShardActors(shard_actors, shards)
        operator = OperatorRequests(wiring.destination, self._group, actors, self.describe)
        joined = JoinedSchemas(operator.questions.chosen_types, operator.questions.definitions)
        self._rows = BatchReader(actors.rows_at, lambda *key: self._group.ask(Plan(*key)), joined)
        self._requests = Requests(wiring.destination, wiring.lease_s, self._group, operator, self._rows)
        self._audit_log = None if wiring.audit_log is None else AuditLog(wiring.audit_log)
        self._counters = GatewayCounters({*CALLS, ROWS, *CANAL_PACKETS})
        self._questions = Calls(QUESTIONS_MAX, ALL_QUESTIONS_MAX)
        self._shared_memory = SharedMemoryServer(self._offer)
        self._guard = ConnectionGuard(wiring.bounds)
        if wiring.canal is not None:
            canal = CanalService(wiring.canal, self._group, self._requests, self._rows, self._counters)
            self._canal = CanalServer(wiring.canal, canal)
        # Last: it listens, and may be called, before it returns.
        tls = wiring.tls.server_options() if wiring.tls is not None else {}
        tokens = TokenMiddleware(wiring.grants, wiring.bounds.calls_max)
        super().__init__(wiring.location, middleware=tokens.middleware, **tls)
        self._guard.start(self.port)

    def shutdown(self) -> None:
        """Stop serving."""
        self._guard.close()
        super().shutdown()

    def describe(self) -> dict[str, Any]:
        """Return the gateway's state as a JSON object."""
        return {"pid": os.getpid(), "counters": self._counters.describe()}

    # ---- actions ---------------------------------------------------------------------------------------

    def do_action(self, context: Any, action: flight.Action) -> list[bytes]:
        """Answer a request with one JSON object."""
        grant = self._caller(context)
        began_s, failed = time.monotonic(), ""
        try:
            body = json.loads(action.body.to_pybytes() or b"{}")
            call = self._admitted(grant, action.type, body)
            answer: dict[str, Any] = {"value": self._answer(context, grant, call)}
        except Exception as error:  # noqa: BLE001  whatever it is, the caller sees a sentence
            refused = refusal(error, f"The request {action.type!r}")
            answer, failed = {"error": refused.to_dict()}, type(refused).__name__
        self._counters.called(action.type, time.monotonic() - began_s, failed)
        return [json.dumps(answer).encode()]

    def _admitted(self, grant: Grant, name: str, body: Mapping[str, Any]) -> Call[Any]:
        """Return the call that a request makes; raises as `_check_allowed` and `call_of`."""
        kind = CALLS.get(name)
        # One that nobody knows needs the right to operate: a reader does not learn what there is.
        reads = kind is not None and kind.declared.right is Right.READ
        self._check_allowed(grant, body, "" if reads else name)
        if kind is None:
            raise UsageError(f"The gateway has no action {name!r}.")
        call = call_of(kind, body)
        return replace(call, by=grant.name) if isinstance(call, Operation) else call

    def _answer(self, context: Any, grant: Grant, call: Call[Any]) -> Any:
        """Answer a call; what changes something is in the audit log, if there is one."""
        if isinstance(call, OpenSharedMemory):
            return self._shared_memory.admit(grant).to_dict()

        def answer() -> Any:
            with self._questions.one_of(grant.name) if call.searches else nullcontext():
                value = self._requests.answer(call, may_disturb=grant.may_disturb)
            if isinstance(call, Get) and value is None:
                self._counters.no_batch()
            return seen_by(grant, value) if isinstance(call, Status) else value

        if self._audit_log is None or call.declared.audited is None:
            return answer()
        who = f"{grant.name} at {_host(context.peer())}"
        name, details = call.declared.name, audited(call)
        return self._audit_log.changing(who, "gateway", self._destination, name, details, answer)

    def _caller(self, context: Any) -> Grant:
        """Return a caller's grant; its connection counts as authenticated from now on."""
        grant = grant_of(context)
        self._guard.let_in(context.peer(), grant.name)
        return grant

    def _check_allowed(self, grant: Grant, body: Mapping[str, Any], operation: str = "") -> None:
        """Check that a request is for this gateway, and that its caller may make it.

        Raises:
            AccessDenied: its caller may not.
            UsageError: it is for another destination, or for a client id that cannot be one.
        """
        client = client_id("client_id", body["client_id"]) if "client_id" in body else None
        grant.check(self._destination, client, operation=operation)
        if body.get("destination") != self._destination:
            raise UsageError(
                f"This gateway serves {self._destination!r}, not {body.get('destination')!r}.",
                hint="Check the destination's name.",
            )

    # ---- rows ------------------------------------------------------------------------------------------

    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.GeneratorStream:
        """Stream the rows of an outstanding batch."""
        grant = self._caller(context)
        began_s = time.monotonic()
        try:
            request = json.loads(ticket.ticket)
            self._check_allowed(grant, request)
            delivery_lease, table, batches = self._leaving(request)
            delivery_lease.check()
        except Exception as error:
            refused = refusal(error, "The ticket")
            self._counters.called(ROWS, time.monotonic() - began_s, type(refused).__name__)
            raise flight_error(refused) from error
        self._counters.called(ROWS, time.monotonic() - began_s)
        return flight.GeneratorStream(table.schema, _messages(delivery_lease.guarded(batches)))

    def _offer(self, grant: Grant, ticket: Mapping[str, Any]) -> Offer:
        """Lend the rows of an outstanding batch to a consumer on this machine."""
        self._check_allowed(grant, ticket)
        delivery_lease, table, batches = self._leaving(ticket)
        if not batches:
            batches = [pa.RecordBatch.from_pylist([], table.schema)]
        return Offer([Payload(None, batches)], delivery_lease.check)

    def _leaving(self, ticket: Mapping[str, Any]) -> tuple[DeliveryLease, pa.Table, list[pa.RecordBatch]]:
        """Return the delivery lease and the rows of a ticket: a table, and messages of `reply_bytes_max`."""
        delivery_lease = self._group.delivery_lease(*_key(ticket))
        table = self._table(ticket).unify_dictionaries()
        self._counters.sent(table.num_rows, table.nbytes)
        rows_max = max(1, self._reply_bytes_max * table.num_rows // max(1, table.nbytes))
        return delivery_lease, table, table.to_batches(rows_max)

    def _table(self, ticket: Mapping[str, Any]) -> pa.Table:
        key = _key(ticket)
        index, count = ticket.get("part", (0, 1))
        part = Part(int(index), int(count))
        if ticket["format"] == "envelope":
            return self._rows.envelope(
                *key, self._requests.filter_of(*key[:2]), part, definitions=bool(ticket.get("definitions"))
            )
        if ticket["format"] == "canal":
            rows_max = 0 if ticket.get("rows_max") is None else whole("rows_max", ticket["rows_max"])
            return self._rows.canal(*key, self._requests.filter_of(*key[:2]), rows_max=rows_max, part=part)
        return self._rows.typed(
            *key,
            str(ticket["table"]),
            before="updates" if ticket.get("before") == "updates" else bool(ticket.get("before")),
            columns=_names(ticket.get("columns")),
            added=_names(ticket.get("added")),
            part=part,
            schema_only=bool(ticket.get("schema_only")),
        )


class Gateway:
    """The Flight server in an actor of its own.

    A plain class that `canal_group.actors.driver.launch` makes an actor.
    """

    def __init__(
        self, wiring: GatewayWiring, group: str, shard_actors: str, shards: Sequence[str], log: ActorLog
    ) -> None:
        freeze_imports()
        log.set_up()
        self._log = log
        self._server = GatewayServer(wiring, group, shard_actors, shards)
        threading.Thread(target=self._server.serve, name="flight", daemon=True).start()

    def __repr__(self) -> str:
        """Return where the actor's output comes from, see `ActorLog`."""
        return self._log.text

    def port(self) -> int:
        """Return the port it listens on."""
        return int(self._server.port)

    def describe(self) -> dict[str, Any]:
        """Return the gateway's state as a JSON object."""
        return self._server.describe()

    def pid(self) -> int:
        """Return the actor's process id."""
        return os.getpid()


def _messages(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield each batch as a message of a stream, with its dictionaries; raises as `do_get`."""
    try:
        for batch in batches:
            yield pa.Table.from_batches([batch])
    except Exception as error:
        # A stream of Arrow's own would send our traceback to the reader.
        raise flight_error(refusal(error, "The ticket")) from error


def _host(peer: str) -> str:
    """Return the address in a peer as gRPC names it, such as "ipv4:10.0.0.1:5000"."""
    return unquote(peer.partition(":")[2]).rpartition(":")[0].strip("[]")


def _key(ticket: Mapping[str, Any]) -> tuple[str, int, int]:
    """Return the batch that a ticket is for; its client id was checked."""
    return ticket["client_id"], whole("epoch", ticket["epoch"]), whole("batch_id", ticket["batch_id"])


def _names(values: Sequence[Any] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(map(str, values))
