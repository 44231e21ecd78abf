"""The gateway actor: an Arrow Flight server, the door that consumers come in by.

Requests are Flight actions with a JSON object as body, each answered with one JSON object: `{"value": ...}`
or `{"error": ...}`. Rows are Flight streams: `do_get` with a JSON ticket names an outstanding batch and the
format. An error of a stream travels as JSON in the Flight error's `extra_info`.

The gateway keeps nothing that matters: batches and cursors are the group's, rows are the shards'. It may be
killed at any time, and it may wake from a long pause: no message of rows leaves without the group's word that
its server is the active one.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import ray
from pyarrow import flight
from ray.actor import ActorHandle

from actors.batch_reader import BatchReader, Part
from actors.flight_errors import flight_error
from actors.gateway_tls import GatewayTls
from actors.permit import Permit
from actors.ray_errors import translated
from actors.shard_actors import ShardActors
from actors.token_door import TokenDoor, grant_of
from merge.access import Grant, Grants
from merge.errors import CanalGroupError, SchemaMismatch, ServerUnavailable, UsageError
from merge.events import Resume
from merge.ledger import Batch
from merge.position import GroupPosition, Position
from merge.span import Span
from merge.table_filter import TableFilter

_log = logging.getLogger(__name__)

#: how long a get may wait for rows, seconds
GET_TIMEOUT_MAX_S = 30.0
#: how long any other call to the group may take, seconds
CALL_TIMEOUT_S = 10.0
#: requests that change nothing of what is served to others; whatever else there is, or will be, operates
_READING = frozenset(
    {
        "subscribe",
        "get",
        "span",
        "describe",
        "locate",
        "ack",
        "rollback",
        "touch",
        "release",
        "unsubscribe",
        "outstanding",
        "standing",
        "status",
    }
)


@dataclass(frozen=True, slots=True)
class GatewayWiring:
    """What a gateway is made of."""

    #: where to listen, "grpc://host:port", or "grpc+tls://host:port" with TLS
    location: str
    #: the only one it serves
    destination: str
    #: who may come in, and for what
    grants: Grants
    #: None: connections are not encrypted
    tls: GatewayTls | None
    #: about how many bytes one message of a stream may have
    reply_bytes_max: int


class Door(flight.FlightServerBase):  # type: ignore[misc]  # pyarrow is untyped
    """The Flight server of one destination.

    Args:
        wiring: what it is made of.
        group: name of the group actor.
        shard_actors: what the shard actors' names begin with; the shard's name follows.
        shards: names of the shards that were launched.
    """

    def __init__(self, wiring: GatewayWiring, group: str, shard_actors: str, shards: Sequence[str]) -> None:
        self._destination = wiring.destination
        self._reply_bytes_max = wiring.reply_bytes_max
        self._group: ActorHandle = ray.get_actor(group)
        self._shards = ShardActors(shard_actors, shards)
        self._rows = BatchReader(self._shards.actor, lambda *key: self._call("plan", *key))
        #: (client_id, epoch) -> the subscription's filter
        self._filters: dict[tuple[str, int], str] = {}
        self._lock = threading.Lock()
        self._actions: dict[str, Callable[[dict[str, Any]], Any]] = {
            "subscribe": self._subscribe,
            "get": self._get,
            "span": self._span,
            "describe": self._describe,
            "locate": self._locate,
            "ack": self._ack,
            "rollback": self._rollback,
            "touch": lambda body: self._call("touch", body["client_id"], body["epoch"]),
            "release": lambda body: self._call("release", body["client_id"], body["epoch"]),
            "unsubscribe": lambda body: self._call("unsubscribe", body["client_id"], body["epoch"]),
            "outstanding": self._outstanding,
            "standing": lambda body: self._call("standing", body["client_id"]),
            "status": lambda _: self.status(),
            "shard_policy": lambda body: self._call("give_policy", str(body["shard"]), str(body["policy"])),
            "shard_add": self._add_shard,
            "shard_remove": self._remove_shard,
        }
        # Last: it listens, and may be called, before it returns.
        tls = wiring.tls.server_options() if wiring.tls is not None else {}
        super().__init__(wiring.location, middleware=TokenDoor(wiring.grants).middleware, **tls)

    # ---- actions ---------------------------------------------------------------------------------------

    def do_action(self, context: Any, action: flight.Action) -> list[bytes]:
        """Answer a request with one JSON object."""
        try:
            body = json.loads(action.body.to_pybytes() or b"{}")
            operation = "" if action.type in _READING else action.type
            self._check_allowed(grant_of(context), body, operation)
            handle = self._actions.get(action.type)
            if handle is None:
                raise UsageError(f"The gateway has no action {action.type!r}.")
            answer: dict[str, Any] = {"value": handle(body)}
        except CanalGroupError as error:
            answer = {"error": error.to_dict()}
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            wrong = UsageError(f"The request {action.type!r} is malformed: {type(error).__name__} {error}.")
            answer = {"error": wrong.to_dict()}
        return [json.dumps(answer).encode()]

    def _check_allowed(self, grant: Grant, body: Mapping[str, Any], operation: str = "") -> None:
        """Return if a request is for this gateway, and its caller may make it.

        Raises:
            AccessDenied: its caller may not.
            UsageError: it is for another destination, or for a client id that cannot be one.
        """
        client_id = body.get("client_id")
        if "client_id" in body and not isinstance(client_id, str):
            # Nobody's client id is no way around those that a token is for.
            raise UsageError(f"client_id is {client_id!r}, no text.")
        grant.check(self._destination, client_id, operation=operation)
        if body.get("destination") != self._destination:
            raise UsageError(
                f"This gateway serves {self._destination!r}, not {body.get('destination')!r}.",
                hint="Check the destination's name.",
            )

    def _subscribe(self, body: dict[str, Any]) -> dict[str, Any]:
        table_filter = str(body.get("filter", ""))
        TableFilter(table_filter)
        resume = body.get("resume")
        if resume not in (None, *Resume):
            raise UsageError(f"resume is {resume!r}.", hint="Say 'cursor' or 'now'.")
        try:
            epoch, cursor = self._call(
                "subscribe",
                body["client_id"],
                str(body["holder"]),
                table_filter,
                str(body.get("session", "")),
                resume,
            )
        except ServerUnavailable as error:
            raise self._explained(error) from error
        with self._lock:
            self._filters = {key: kept for key, kept in self._filters.items() if key[0] != body["client_id"]}
            self._filters[body["client_id"], epoch] = table_filter
        return {"epoch": epoch, "cursor": cursor.to_json()}

    def _explained(self, error: ServerUnavailable) -> ServerUnavailable:
        """Say which shard a subscription waits for: until each has told where it stands, nobody can begin."""
        group = self._status_of_group()
        if not group.get("active") or group["merging"]:
            return error
        why = {shard["shard"]: shard["error"] for shard in self.status()["shards"]}.get(group["held_by"])
        return ServerUnavailable(
            f"{self._destination} waits for shard {group['held_by']} to tell where it stands.",
            hint=why or "",
            retry_after_s=error.retry_after_s,
        )

    def _get(self, body: dict[str, Any]) -> dict[str, Any] | None:
        timeout_s = min(max(float(body["timeout_s"]), 0.0), GET_TIMEOUT_MAX_S)
        key = body["client_id"], body["epoch"]
        rows_max, seen_id = int(body["rows_max"]), body.get("seen_id")
        seen_id = None if seen_id is None else int(seen_id)
        batch: Batch | None = self._call("get", *key, rows_max, timeout_s, seen_id, wait_s=timeout_s)
        if batch is None:
            return None
        return self._delivered(key, batch)

    def _span(self, body: dict[str, Any]) -> dict[str, Any] | None:
        timeout_s = min(max(float(body["timeout_s"]), 0.0), GET_TIMEOUT_MAX_S)
        until, key_us_max = body.get("until"), body.get("key_us_max")
        span = Span(
            GroupPosition.from_json(body["start"]),
            GroupPosition.from_json(until) if until is not None else None,
            rows_max=max(1, int(body["rows_max"])),
            bytes_max=max(1, int(body["bytes_max"])),
            rows_min=int(body.get("rows_min", 0)),
            key_us_max=int(key_us_max) if key_us_max is not None else None,
        )
        key = str(body["client_id"]), int(body["epoch"])
        with translated("The group"):
            asked = self._group.span.remote(
                *key, span, may_rewind=bool(body.get("may_rewind")), timeout_s=timeout_s
            )
            batch: Batch | None = ray.get(asked, timeout=CALL_TIMEOUT_S + timeout_s)
        return None if batch is None else self._delivered(key, batch)

    def _delivered(self, key: tuple[str, int], batch: Batch) -> dict[str, Any]:
        self._rows.remember(*key, batch)
        return {
            "batch_id": batch.batch_id,
            "rows": batch.rows,
            "start": batch.start.to_json(),
            "ack": batch.ack.to_json(),
            "end": batch.end.to_json(),
        }

    def _describe(self, body: dict[str, Any]) -> str:
        """Return a table's columns over all shards, as the base64 text of an Arrow schema."""
        name = str(body["table"])
        schema, _, table = name.partition(".")
        answers = self._ask_shards("describe", schema, table)
        found = [pa.ipc.read_schema(pa.py_buffer(said)) for said in answers.values() if said is not None]
        if not found:
            raise UsageError(
                f"No shard of {self._destination} has a table that is called {name}.",
                hint="Name it as consumers see it, after filter and routes. An account that may not SELECT"
                " from it sees it with its first row; until then say what its columns are: .schema(...).",
            )
        try:
            together = pa.unify_schemas(found, promote_options="permissive")
        except pa.ArrowException as error:
            raise SchemaMismatch(
                f"The columns of {name} in the shards cannot become one: {error}.",
                hint="Bring the shards to one definition, or read the envelope format.",
                table=name,
            ) from error
        return b64encode(together.serialize().to_pybytes()).decode()

    def _locate(self, body: dict[str, Any]) -> str:
        """Return where the sources' binlogs begin or end now, as the JSON of a group position."""
        where = body["where"]
        if where not in ("earliest", "latest"):
            raise UsageError(f"where is {where!r}.", hint="Say 'earliest' or 'latest'.")
        return GroupPosition(self._ask_shards("locate", where)).to_json()

    def _ask_shards(self, method: str, *arguments: Any) -> dict[str, Any]:
        """Return what every shard answers, by name; those that left are not asked."""
        group = self._status_of_group()
        if not group.get("active"):
            raise ServerUnavailable(
                f"The group of {self._destination} does not say which shards it has: "
                f"{group.get('error', 'another server is active')}",
                retry_after_s=0.5,
            )
        shards = [shard["shard"] for shard in group["shards"] if shard["role"] != "left"]
        asked = [
            getattr(self._shards.actor(shard), method)
            .options(concurrency_group="describe")
            .remote(*arguments)
            for shard in shards
        ]
        found: dict[str, Any] = {}
        for shard, reference in zip(shards, asked, strict=True):
            with translated(f"Shard {shard}"):
                found[shard] = ray.get(reference, timeout=CALL_TIMEOUT_S)
        return found

    def _ack(self, body: dict[str, Any]) -> dict[str, Any]:
        key = body["client_id"], body["epoch"], int(body["batch_id"])
        cursor = self._call("ack", *key)
        # The rings forget its rows a little later.
        self._rows.forget(*key)
        return {"cursor": cursor.to_json()}

    def _rollback(self, body: dict[str, Any]) -> int:
        batch_id = body.get("batch_id")
        count: int = self._call(
            "rollback", body["client_id"], body["epoch"], None if batch_id is None else int(batch_id)
        )
        self._rows.forget(body["client_id"], body["epoch"])
        return count

    def _outstanding(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        clients = self._status_of_group().get("clients", [])
        found = [client for client in clients if client["client_id"] == body["client_id"]]
        return list(found[0]["outstanding"]) if found else []

    def _add_shard(self, body: dict[str, Any]) -> dict[str, Any]:
        start = None if body.get("start") is None else Position.from_dict(body["start"])
        state: dict[str, Any] = self._call("add_shard", dict(body["shard"]), start, wait_s=CALL_TIMEOUT_S)
        return state

    def _remove_shard(self, body: dict[str, Any]) -> dict[str, Any]:
        state: dict[str, Any] = self._call("remove_shard", str(body["shard"]), now=bool(body.get("now")))
        return state

    def status(self) -> dict[str, Any]:
        """Return the state of the whole instance as a JSON object: group and shards."""
        group = self._status_of_group()
        shards = self._shards.status(group.get("shards", []))
        return {
            "destination": self._destination,
            "now_us": time.time_ns() // 1000,
            "gateway": {"pid": os.getpid()},
            "group": group,
            "shards": shards,
        }

    def _status_of_group(self) -> dict[str, Any]:
        ask = self._group.status.options(concurrency_group="status")
        try:
            with translated("The group"):
                status: dict[str, Any] = ray.get(ask.remote(), timeout=CALL_TIMEOUT_S)
        except CanalGroupError as error:
            return {"active": False, "error": str(error)}
        return status

    def _call(self, method: str, *arguments: Any, wait_s: float = 0.0, **named: Any) -> Any:
        call = getattr(self._group, method)
        with translated("The group"):
            return ray.get(call.remote(*arguments, **named), timeout=CALL_TIMEOUT_S + wait_s)

    # ---- rows ------------------------------------------------------------------------------------------

    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.RecordBatchStream:
        """Stream the rows of an outstanding batch."""
        try:
            named = json.loads(ticket.ticket)
            self._check_allowed(grant_of(context), named)
            permit = self._permit(named["client_id"], named["epoch"], named["batch_id"])
            table = self._table(named)
            permit.check()
        except CanalGroupError as error:
            raise flight_error(error) from error
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            wrong = UsageError(f"The ticket is malformed: {type(error).__name__} {error}.")
            raise flight_error(wrong) from error
        rows_max = max(1, self._reply_bytes_max * table.num_rows // max(1, table.nbytes))
        table = table.unify_dictionaries()
        leaving = permit.guarded(table.to_batches(rows_max))
        return flight.RecordBatchStream(pa.RecordBatchReader.from_batches(table.schema, leaving))

    def _permit(self, client_id: str, epoch: int, batch_id: int) -> Permit:
        def ask() -> Future[float]:
            # A future: Ray prints a traceback of an error that nobody fetches, as when the rows fail first.
            answer: Future[float] = self._group.confirm.remote(client_id, epoch, batch_id).future()
            return answer

        return Permit(ask, _seconds)

    def _table(self, ticket: dict[str, Any]) -> pa.Table:
        key = ticket["client_id"], ticket["epoch"], ticket["batch_id"]
        index, count = ticket.get("part", (0, 1))
        part = Part(int(index), int(count))
        if ticket["format"] == "envelope":
            return self._rows.envelope(*key, self._filter_of(*key[:2]), part)
        return self._rows.typed(
            *key,
            str(ticket["table"]),
            before="updates" if ticket.get("before") == "updates" else bool(ticket.get("before")),
            columns=_names(ticket.get("columns")),
            added=_names(ticket.get("added")),
            part=part,
        )

    def _filter_of(self, client_id: str, epoch: int) -> str:
        """Return a subscription's filter, from the group if it was made at a gateway before this one."""
        known = self._filters.get((client_id, epoch))
        if known is not None:
            return known
        for client in self._status_of_group().get("clients", []):
            if (client["client_id"], client["epoch"]) == (client_id, epoch):
                table_filter = self._filters[client_id, epoch] = str(client["filter"])
                return table_filter
        raise ServerUnavailable(f"The group does not know client {client_id} yet.", retry_after_s=0.2)


class Gateway:
    """The door in an actor of its own; a plain class that `actors.launch` turns into one."""

    def __init__(self, wiring: GatewayWiring, group: str, shard_actors: str, shards: Sequence[str]) -> None:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
        self._door = Door(wiring, group, shard_actors, shards)
        threading.Thread(target=self._door.serve, name="flight", daemon=True).start()

    def port(self) -> int:
        """Return the port it listens on."""
        return int(self._door.port)

    def pid(self) -> int:
        """Return the actor's process id."""
        return os.getpid()


def _names(said: Sequence[Any] | None) -> tuple[str, ...] | None:
    return None if said is None else tuple(map(str, said))


def _seconds(answer: Future[float]) -> float:
    with translated("The group"):
        return float(answer.result(CALL_TIMEOUT_S))
