"""The gateway actor: the Arrow Flight server for consumers and operators of one or several destinations.

Requests are Flight actions with a JSON object as body, each answered with one JSON object: `{"value": ...}`
or `{"error": ...}`. Rows are Flight streams: `do_get` with a JSON ticket names an outstanding batch and the
format. An error of a stream travels as JSON in the Flight error's `extra_info`. Each request and ticket names
its destination.

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
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import flight

from canal_group.actors.admission.access import Grant
from canal_group.actors.admission.audit_log import AuditLog, audited
from canal_group.actors.admission.connection_guard import ConnectionGuard
from canal_group.actors.admission.token_middleware import Caller, TokenMiddleware, caller_of
from canal_group.actors.admission.unsent_rows import HeldRows, UnsentRows
from canal_group.actors.gateway.delivery_lease import DeliveryLease
from canal_group.actors.gateway.destinations import Destinations
from canal_group.actors.gateway.requests import seen_by
from canal_group.actors.gateway.served_destination import ROWS, ServedDestination, key_of
from canal_group.actors.gateway.wiring import DestinationWiring, GatewayWiring
from canal_group.actors.process.imports import freeze_imports
from canal_group.actors.process.log import ActorLog
from canal_group.actors.store.rows import Payload
from canal_group.actors.transport.flight_errors import flight_error, refusal
from canal_group.actors.transport.shared_memory_server import Offer, SharedMemoryServer
from canal_group.merge.calls.body import call_of
from canal_group.merge.calls.call import CALLS, Call, Right
from canal_group.merge.calls.consumers import AckAndGet, Get, OpenSharedMemory, Status
from canal_group.merge.calls.operators import Operation
from canal_group.merge.calls.values import client_id
from canal_group.merge.errors import ConfigError, UsageError
from canal_group.merge.whole import shown

#: bytes of a request: the two positions of an offset range are the longest
REQUEST_BYTES_MAX: Final = 64 << 20


class GatewayServer(flight.FlightServerBase):  # type: ignore[misc]  # pyarrow is untyped
    """The Flight server of one listener.

    Args:
        wiring: what it is made of.
        destinations: those that it serves; they come and go while it runs.
    """

    def __init__(self, wiring: GatewayWiring, destinations: Destinations) -> None:
        self._destinations = destinations
        self._reply_bytes_max = wiring.bounds.reply_bytes_max
        self._audit_log = None if wiring.audit_log is None else AuditLog(wiring.audit_log)
        self._unsent = UnsentRows(wiring.bounds.unsent_bytes_max)
        self._shared_memory = SharedMemoryServer(self._offer, lent_max=wiring.bounds.lent_bytes_max)
        self._guard = ConnectionGuard(wiring.bounds)
        # Last: it listens, and may be called, before it returns.
        tls = wiring.tls.server_options() if wiring.tls is not None else {}
        tokens = TokenMiddleware(destinations.grants, wiring.bounds.calls_max)
        super().__init__(wiring.location, middleware=tokens.middleware, **tls)
        self._guard.start(self.port)

    def shutdown(self) -> None:
        """Stop serving."""
        self._guard.close()
        super().shutdown()
        self._unsent.close()

    # ---- actions ---------------------------------------------------------------------------------------

    def do_action(self, context: Any, action: flight.Action) -> list[bytes | pa.Buffer]:
        """Answer a request with one JSON object; rows that come with it follow as an Arrow stream."""
        caller = self._caller(context)
        began_s, failed, counters = time.monotonic(), "", self._destinations.unserved
        rows: list[pa.Buffer] = []
        try:
            body = _object(action.body.to_pybytes() or b"{}")
            counters = self._destinations.counters_of(body.get("destination"))
            destination, grant = self._destinations.find(body.get("destination"), caller)
            call = self._admitted(destination.name, grant, action.type, body)
            if isinstance(call, Get | AckAndGet):
                value, rows = destination.get(call)
            else:
                value = self._answer(context, destination, caller, grant, call)
            answer: dict[str, Any] = {"value": value}
        except Exception as error:  # noqa: BLE001  whatever it is, the caller sees a sentence
            refused = refusal(error, f"The request {action.type!r}")
            answer, failed = {"error": refused.to_dict()}, type(refused).__name__
        counters.called(action.type, time.monotonic() - began_s, failed)
        return [json.dumps(answer).encode(), *rows]

    def _admitted(self, destination: str, grant: Grant, name: str, body: Mapping[str, Any]) -> Call[Any]:
        """Return the call that a request makes; raises as `_check_allowed` and `call_of`."""
        kind = CALLS.get(name)
        # One that nobody knows needs the right to operate: a reader does not learn what there is.
        reads = kind is not None and kind.declared.right is Right.READ
        _check_allowed(destination, grant, body, "" if reads else name)
        if kind is None:
            raise UsageError(f"The gateway has no action {name!r}.")
        call = call_of(kind, body)
        return replace(call, by=grant.name) if isinstance(call, Operation) else call

    def _answer(
        self, context: Any, destination: ServedDestination, caller: Caller, grant: Grant, call: Call[Any]
    ) -> Any:
        """Answer a call; what changes something is in the audit log, if there is one."""
        if isinstance(call, OpenSharedMemory):
            return self._shared_memory.admit(caller).to_dict()

        def answer() -> Any:
            with destination.questions.one_of(grant.name) if call.searches else nullcontext():
                value = destination.requests.answer(call, may_disturb=grant.may_disturb)
            return seen_by(grant, value) if isinstance(call, Status) else value

        if self._audit_log is None or call.declared.audited is None:
            return answer()
        who = f"{grant.name} at {_host(context.peer())}"
        name, details = call.declared.name, audited(call)
        return self._audit_log.changing(who, "gateway", destination.name, name, details, answer)

    def _caller(self, context: Any) -> Caller:
        """Return who calls; its connection counts as authenticated from now on."""
        caller = caller_of(context)
        self._guard.let_in(context.peer(), caller.owner)
        return caller

    # ---- rows ------------------------------------------------------------------------------------------

    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.GeneratorStream:
        """Stream the rows of an outstanding batch."""
        caller = self._caller(context)
        began_s, counters = time.monotonic(), self._destinations.unserved
        try:
            request = _object(ticket.ticket)
            counters = self._destinations.counters_of(request.get("destination"))
            held, delivery_lease, table = self._leaving(caller, request)
            with _given_back_on_error(held):
                delivery_lease.check()
        except Exception as error:
            refused = refusal(error, "The ticket")
            counters.called(ROWS, time.monotonic() - began_s, type(refused).__name__)
            raise flight_error(refused) from error
        counters.called(ROWS, time.monotonic() - began_s)
        rows_max = max(1, self._reply_bytes_max * table.num_rows // max(1, table.nbytes))
        held.sending(table.nbytes, partial(self._guard.end, context.peer()))
        batches = held.counted(delivery_lease.guarded(table.to_batches(rows_max)))
        return flight.GeneratorStream(table.schema, _messages(batches))

    def _offer(self, caller: Caller, ticket: Mapping[str, Any]) -> Offer:
        """Lend the rows of an outstanding batch to a consumer on this machine.

        They are one message where they can be: a part of a batch would be copied once more to be written.
        """
        held, delivery_lease, table = self._leaving(caller, ticket)
        batches = table.to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]
        return Offer([Payload(None, batches)], delivery_lease.check, held)

    def _leaving(self, caller: Caller, ticket: Mapping[str, Any]) -> tuple[HeldRows, DeliveryLease, pa.Table]:
        """Return the rows of a ticket, their delivery lease, and the bytes that are held for them.

        Raises:
            CanalGroupError: its caller may not read it, or as `Destinations.find`.
        """
        destination, grant = self._destinations.find(ticket.get("destination"), caller)
        _check_allowed(destination.name, grant, ticket)
        key = key_of(ticket)
        held = HeldRows(self._unsent, f"{destination.name}/{key[0]}")
        held.await_turn()
        delivery_lease = destination.group.delivery_lease(*key)
        with _given_back_on_error(held):
            return held, delivery_lease, destination.table(ticket, held.take)


class Gateway:
    """The Flight server in an actor of its own, with canal's listeners beside it.

    A plain class that `canal_group.actors.driver.launch` makes an actor. It listens once it was told its
    destinations: a process that Ray has started anew knows none until the driver tells them again.
    """

    def __init__(self, wiring: GatewayWiring, log: ActorLog) -> None:
        freeze_imports()
        log.set_up()
        self._log = log
        self._wiring = wiring
        self._destinations = Destinations()
        self._server: GatewayServer | None = None
        self._version = 0
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        """Return where the actor's output comes from, see `ActorLog`."""
        return self._log.text

    def serve(self, version: int, destinations: Sequence[DestinationWiring]) -> dict[str, str]:
        """Serve these destinations from now on; an earlier version than the last one is ignored.

        Returns:
            Those that cannot be served, and why: they have to be told again.

        Raises:
            ConfigError: a listener cannot listen.
        """
        with self._lock:
            if version <= self._version:
                return {}
            failed = self._destinations.serve(destinations)
            if self._server is None:
                self._server = self._listening()
                threading.Thread(target=self._server.serve, name="flight", daemon=True).start()
            if not failed:
                self._version = version
            return failed

    def _listening(self) -> GatewayServer:
        try:
            return GatewayServer(self._wiring, self._destinations)
        except pa.ArrowException as error:
            raise ConfigError(
                f"The gateway cannot listen on {self._wiring.location}.",
                hint="Stop what listens there, or set gateway.port (0: a free one).",
            ) from error

    def version(self) -> int:
        """Return the version of the destinations that are served; 0: none are yet."""
        return self._version

    def describe(self, destination: str) -> dict[str, Any]:
        """Return the gateway's state at a destination; raises as `Destinations.state_of`."""
        return self._destinations.state_of(destination)

    def pid(self) -> int:
        """Return the actor's process id."""
        return os.getpid()


def _object(text: bytes) -> dict[str, Any]:
    """Return the JSON object of a request.

    Raises:
        UsageError: the text is longer than `REQUEST_BYTES_MAX`, or not an object.
        ValueError, RecursionError: the text is not JSON.
    """
    if len(text) > REQUEST_BYTES_MAX:
        raise UsageError(f"A request has {len(text)} bytes, more than {REQUEST_BYTES_MAX}.")
    value = json.loads(text)
    if not isinstance(value, dict):
        raise UsageError(f"A request is {shown(value)}, not a JSON object.")
    return value


@contextmanager
def _given_back_on_error(held: HeldRows) -> Iterator[None]:
    """Give the bytes back at once if there are no rows: the error would keep them."""
    try:
        yield
    except BaseException:
        held.give_back()
        raise


def _check_allowed(destination: str, grant: Grant, body: Mapping[str, Any], operation: str = "") -> None:
    """Return if a caller may make a request.

    Raises:
        AccessDenied: it may not.
        UsageError: the request is for a client id that cannot be one.
    """
    client = client_id("client_id", body["client_id"]) if "client_id" in body else None
    grant.check(destination, client, operation=operation)


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
