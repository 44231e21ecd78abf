"""Answer the requests of consumers and operators, in JSON, with the help of the group and the shards.

There is no durable state here: a subscription's filter is only cached, and the group has it.
"""

from __future__ import annotations

import os
import threading
import time
from base64 import b64encode
from collections.abc import Callable
from typing import Any

from actors.admission.access import Grant
from actors.admission.request_values import holder, session, wait_s, whole, whole_or_none
from actors.gateway.batch_reader import BatchReader
from actors.gateway.group_handle import CALL_TIMEOUT_S, GroupHandle
from actors.gateway.shard_actors import ShardActors
from actors.gateway.shard_questions import ShardQuestions
from merge.delivery.ledger import Batch
from merge.errors import ServerUnavailable, UsageError
from merge.events import Resume
from merge.rows.table_filter import TableFilter
from merge.values.offset_range import OffsetRange, order_of
from merge.values.position import GroupPosition, Position

#: requests that need no operator's grant; all others do
READING = frozenset(
    {
        "subscribe",
        "get",
        "offset_range",
        "describe",
        "locate",
        "ack",
        "rollback",
        "touch",
        "release",
        "unsubscribe",
        "outstanding",
        "lease_state",
        "status",
        "shared_memory",
    }
)


class Requests:
    """Answers requests by their names. Safe to use from several threads.

    Args:
        destination: the one that is served.
        lease_s: how long a consumer may be silent, for it to know.
        group: whom to ask.
        shards: their actors.
        rows: told of the batches that are delivered, and of those that are done with.
    """

    def __init__(
        self, destination: str, lease_s: float, group: GroupHandle, shards: ShardActors, rows: BatchReader
    ) -> None:
        self._destination = destination
        self._lease_s = lease_s
        self._group = group
        self._shards = shards
        self._questions = ShardQuestions(destination, group, shards)
        self._rows = rows
        #: (client_id, epoch) -> the subscription's filter
        self._filters: dict[tuple[str, int], str] = {}
        self._lock = threading.Lock()
        #: those that may roll other clients back, if their caller's grant says so
        self._disturbing: dict[str, Callable[[dict[str, Any], bool], Any]] = {
            "subscribe": self._subscribe,
            "offset_range": self._offset_range,
        }
        self._answers: dict[str, Callable[[dict[str, Any]], Any]] = {
            "get": self._get,
            "describe": self._describe,
            "locate": self._locate,
            "ack": self._ack,
            "rollback": self._rollback,
            "touch": lambda body: group.call("touch", *_key(body)),
            "release": lambda body: group.call("release", *_key(body)),
            "unsubscribe": lambda body: group.call("unsubscribe", *_key(body)),
            "outstanding": self._outstanding,
            "lease_state": lambda body: group.call("lease_state", body["client_id"]),
            "status": lambda _: self.status(),
            "rewind": self._rewind,
            "shard_policy": lambda body: group.call("give_policy", str(body["shard"]), str(body["policy"])),
            "shard_add": self._add_shard,
            "shard_remove": self._remove_shard,
            "schema_show": lambda body: self._questions.schema(body["shard"]),
            "schema_rebuild": lambda body: self._questions.rebuild_schema(str(body["shard"])),
        }

    def answer(self, request: str, body: dict[str, Any], *, may_disturb: bool) -> Any:
        """Return the answer to a request, as what JSON can say.

        Args:
            request: its name.
            body: what it says.
            may_disturb: whether other clients may be rolled back for it.

        Raises:
            CanalGroupError: it is refused.
            ArithmeticError, AttributeError, LookupError, TypeError, ValueError: it is malformed.
        """
        if request in self._disturbing:
            return self._disturbing[request](body, may_disturb)
        handle = self._answers.get(request)
        if handle is None:
            raise UsageError(f"The gateway has no action {request!r}.")
        return handle(body)

    def filter_of(self, client_id: str, epoch: int) -> str:
        """Return a subscription's filter; ask the group if an earlier gateway made the subscription."""
        known = self._filters.get((client_id, epoch))
        if known is not None:
            return known
        for client in self._group.status().get("clients", []):
            if (client["client_id"], client["epoch"]) == (client_id, epoch):
                table_filter = self._filters[client_id, epoch] = str(client["filter"])
                return table_filter
        raise ServerUnavailable(f"The group does not know client {client_id} yet.", retry_after_s=0.2)

    def status(self) -> dict[str, Any]:
        """Return the state of the whole instance as a JSON object: group and shards."""
        group = self._group.status()
        shards = self._shards.status(group.get("shards", []))
        return {
            "destination": self._destination,
            "now_us": time.time_ns() // 1000,
            "gateway": {"pid": os.getpid()},
            "group": group,
            "shards": shards,
        }

    def _subscribe(self, body: dict[str, Any], may_disturb: bool) -> dict[str, Any]:
        table_filter = str(body.get("filter", ""))
        TableFilter.of_reader(table_filter)
        resume = body.get("resume")
        if resume not in (None, *Resume):
            raise UsageError(f"resume is {resume!r}.", hint="Expected 'cursor' or 'now'.")
        try:
            epoch, cursor = self._group.call(
                "subscribe",
                body["client_id"],
                holder(body),
                table_filter,
                session(body),
                resume,
                may_disturb=may_disturb,
                start=self._start_of(body),
            )
        except ServerUnavailable as error:
            raise self._explained(error) from error
        with self._lock:
            self._filters = {key: kept for key, kept in self._filters.items() if key[0] != body["client_id"]}
            self._filters[body["client_id"], epoch] = table_filter
        return {"epoch": epoch, "cursor": cursor.to_json(), "lease_s": self._lease_s}

    def _explained(self, error: ServerUnavailable) -> ServerUnavailable:
        """Return an error that names the shard whose position a subscription waits for."""
        group = self._group.status()
        if not group.get("active") or group["merging"]:
            return error
        why = {shard["shard"]: shard["error"] for shard in self.status()["shards"]}.get(group["held_by"])
        return ServerUnavailable(
            f"{self._destination} waits for shard {group['held_by']} to report its position.",
            hint=why or "",
            retry_after_s=error.retry_after_s,
        )

    def _get(self, body: dict[str, Any]) -> dict[str, Any] | None:
        timeout_s, key = wait_s(body), _key(body)
        rows_max, seen_id = whole(body, "rows_max"), whole_or_none(body, "seen_id")
        batch: Batch | None = self._group.call("get", *key, rows_max, timeout_s, seen_id, wait_s=timeout_s)
        if batch is None:
            return None
        return self._delivered(key, batch)

    def _offset_range(self, body: dict[str, Any], may_disturb: bool) -> dict[str, Any] | None:
        timeout_s, key, until = wait_s(body), _key(body), body.get("until")
        offset_range = OffsetRange(
            GroupPosition.from_json(body["start"]),
            GroupPosition.from_json(until) if until is not None else None,
            rows_max=max(1, whole(body, "rows_max")),
            bytes_max=max(1, whole(body, "bytes_max")),
            rows_min=whole_or_none(body, "rows_min") or 0,
            key_us_max=whole_or_none(body, "key_us_max"),
        )
        may_rewind = bool(body.get("may_rewind"))
        batch: Batch | None = self._group.call(
            "offset_range",
            *key,
            offset_range,
            may_rewind=may_rewind,
            may_disturb=may_disturb,
            timeout_s=timeout_s,
            wait_s=timeout_s,
        )
        if batch is None:
            return None
        return {**self._delivered(key, batch), "order": order_of(batch.headers, batch.names, batch.shards)}

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
        return b64encode(self._questions.columns(str(body["table"])).serialize().to_pybytes()).decode()

    def _locate(self, body: dict[str, Any]) -> str:
        """Return where the sources' binlogs begin or end now, or were at a time: a group position's JSON."""
        return self._questions.position(str(body["where"])).to_json()

    def _rewind(self, body: dict[str, Any]) -> dict[str, Any]:
        """Move the cursor of a client id that has no consumer.

        The operator takes the client id for that: so a consumer that is still active refuses it, and one that
        was cut off is fenced.
        """
        client_id = body["client_id"]
        client = self._client(client_id)
        if client is None:
            raise UsageError(
                f"{self._destination} has no client {client_id}.", hint="canal-group status lists them."
            )
        start = self._questions.position(str(body["to"]))
        before = None if client["cursor"] is None else GroupPosition.from_json(client["cursor"])
        epoch, after = self._group.call(
            "subscribe", client_id, "an operator's rewind", str(client["filter"]), start=start, move=True
        )
        self._group.call("release", client_id, epoch)
        return {"from": None if before is None else before.to_json(), "to": after.to_json()}

    def _client(self, client_id: str) -> dict[str, Any] | None:
        """Return the state of a client id; None if there is no such subscription."""
        clients = self._group.status().get("clients", [])
        return next((dict(each) for each in clients if each["client_id"] == client_id), None)

    def _start_of(self, body: dict[str, Any]) -> GroupPosition | None:
        """Return the chosen start of a subscription; None if there is none, or its client id has a cursor."""
        start = body.get("start")
        if start in (None, "latest"):
            return None
        client = self._client(body["client_id"])
        if client is not None and client["cursor"] is not None:
            return None
        return self._questions.position(str(start))

    def _ack(self, body: dict[str, Any]) -> dict[str, Any]:
        key, batch_id = _key(body), whole(body, "batch_id")
        cursor = self._group.call("ack", *key, batch_id)
        # The rings forget its rows a little later.
        self._rows.forget(*key, batch_id)
        return {"cursor": cursor.to_json()}

    def _rollback(self, body: dict[str, Any]) -> int:
        count: int = self._group.call("rollback", *_key(body), whole_or_none(body, "batch_id"))
        self._rows.forget(*_key(body))
        return count

    def _outstanding(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        client = self._client(body["client_id"])
        return [] if client is None else list(client["outstanding"])

    def _add_shard(self, body: dict[str, Any]) -> dict[str, Any]:
        start = None if body.get("start") is None else Position.from_dict(body["start"])
        state: dict[str, Any] = self._group.call(
            "add_shard", dict(body["shard"]), start, wait_s=CALL_TIMEOUT_S
        )
        return state

    def _remove_shard(self, body: dict[str, Any]) -> dict[str, Any]:
        state: dict[str, Any] = self._group.call(
            "remove_shard", str(body["shard"]), now=bool(body.get("now"))
        )
        return state


def _key(body: dict[str, Any]) -> tuple[str, int]:
    """Return the client id, which was checked against the caller's grant, and the epoch of a request."""
    return body["client_id"], whole(body, "epoch")


def seen_by(grant: Grant, status: dict[str, Any]) -> dict[str, Any]:
    """Return the part of an instance's state that a caller may see: only client ids that its grant allows."""
    group = status["group"]
    if "clients" not in group:
        return status
    clients = [client for client in group["clients"] if grant.sees(client["client_id"])]
    return {**status, "group": {**group, "clients": clients}}
