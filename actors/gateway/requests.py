"""Answer the requests of consumers, in JSON, with the help of the group and the shards.

There is no durable state here: a subscription's filter is only cached, and the group has it.
"""

from __future__ import annotations

import threading
from base64 import b64encode
from collections.abc import Callable
from typing import Any

from actors.admission.access import Grant
from actors.admission.request_values import holder, session, wait_s, whole, whole_or_none
from actors.gateway.batch_reader import BatchReader
from actors.gateway.group_handle import GroupHandle
from actors.gateway.operator_requests import OperatorRequests
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

#: subscriptions whose filter is kept; those of others are asked for again
FILTERS_MAX = 1_024


class Requests:
    """Answers requests by their names. Safe to use from several threads.

    Args:
        destination: the one that is served.
        lease_s: how long a consumer may be silent, for it to know.
        group: whom to ask.
        operator: answers operators' requests.
        rows: told of the batches that are delivered, and of those that are done with.
    """

    def __init__(
        self,
        destination: str,
        lease_s: float,
        group: GroupHandle,
        operator: OperatorRequests,
        rows: BatchReader,
    ) -> None:
        self._destination = destination
        self._lease_s = lease_s
        self._group = group
        self._operator = operator
        self._questions = operator.questions
        self._rows = rows
        #: (client_id, epoch) -> the subscription's filter
        self._filters: dict[tuple[str, int], str] = {}
        self._lock = threading.Lock()
        #: those that may roll other clients back, if their caller's grant says so
        self._disturbing: dict[str, Callable[[dict[str, Any], bool], Any]] = {
            "subscribe": lambda body, may_disturb: self.subscribe(body, may_disturb=may_disturb),
            "offset_range": self._offset_range,
        }
        self._answers: dict[str, Callable[[dict[str, Any]], Any]] = {
            **operator.answers,
            "get": self._get,
            "describe": self._describe,
            "ack": self._ack,
            "rollback": self._rollback,
            "touch": lambda body: group.call("touch", *_key(body)),
            "release": lambda body: group.call("release", *_key(body)),
            "unsubscribe": lambda body: group.call("unsubscribe", *_key(body)),
            "lease_state": lambda body: group.call("lease_state", body["client_id"]),
        }

    @property
    def names(self) -> frozenset[str]:
        """The names of all requests."""
        return frozenset({*self._disturbing, *self._answers})

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

    def subscribe(
        self, body: dict[str, Any], *, may_disturb: bool, finds_session: bool = False
    ) -> dict[str, Any]:
        """Make a consumer the active one; raises as `answer`.

        Args:
            body: what its request says.
            may_disturb: whether other clients may be rolled back for it.
            finds_session: whether it may keep its running node itself and not tell its session.
        """
        table_filter = str(body.get("filter", ""))
        TableFilter.of_reader(table_filter)
        resume = body.get("resume")
        if resume not in (None, *Resume):
            raise UsageError(f"resume is {resume!r}.", hint="Expected 'cursor' or 'now'.")
        start, ends = self._start_of(body)
        try:
            epoch, cursor = self._group.call(
                "subscribe",
                body["client_id"],
                holder(body),
                table_filter,
                session(body),
                resume,
                may_disturb=may_disturb,
                start=start,
                ends=ends,
                finds_session=finds_session,
            )
        except ServerUnavailable as error:
            raise self._explained(error) from error
        with self._lock:
            self._filters = {key: kept for key, kept in self._filters.items() if key[0] != body["client_id"]}
            self._filters[body["client_id"], epoch] = table_filter
            if len(self._filters) > FILTERS_MAX:
                del self._filters[next(iter(self._filters))]
        return {"epoch": epoch, "cursor": cursor.to_json(), "lease_s": self._lease_s}

    def _explained(self, error: ServerUnavailable) -> ServerUnavailable:
        """Return an error that names the shard whose position a subscription waits for."""
        group = self._group.status()
        if not group.get("active") or group["merging"]:
            return error
        shards = self._operator.status()["shards"]
        why = {shard["shard"]: shard["error"] for shard in shards}.get(group["held_by"])
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
            may_be_empty=bool(body.get("may_be_empty")),
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

    def _start_of(self, body: dict[str, Any]) -> tuple[GroupPosition | None, dict[str, Position] | None]:
        """Return `start` and `ends` of a `SubscribeRequested`; (None, None) for a client id with a cursor."""
        start = body.get("start")
        client = self._operator.client(body["client_id"])
        if client is not None and client["cursor"] is not None:
            return None, None
        if start not in (None, "latest"):
            return self._questions.position(str(start)), None
        if not self._group.status().get("had_clients", True):
            return None, {}
        return self._questions.beginning(latest=start is not None)

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
