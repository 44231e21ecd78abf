"""Answer the calls of consumers, in JSON, with the help of the group and the shards.

There is no durable state here: a subscription's filter is only cached, and the group has it.
"""

from __future__ import annotations

import threading
from base64 import b64encode
from dataclasses import replace
from typing import Any

from canal_group.actors.admission.access import Grant
from canal_group.actors.gateway.batch_reader import BatchReader
from canal_group.actors.gateway.group_handle import GroupHandle
from canal_group.actors.gateway.operator_requests import OperatorRequests, client_in
from canal_group.merge.calls.batch import Batch
from canal_group.merge.calls.call import Call
from canal_group.merge.calls.consumers import (
    Ack,
    AckAndGet,
    Describe,
    Get,
    GetRange,
    LeaseState,
    Release,
    Rollback,
    Subscribe,
    SubscribeAt,
    Touch,
    Unsubscribe,
)
from canal_group.merge.errors import ServerUnavailable
from canal_group.merge.rows.table_filter import TableFilter
from canal_group.merge.values.offset_range import order_of
from canal_group.merge.values.position import GroupPosition, Position

#: subscriptions whose filter is kept; those of others are asked for again
FILTERS_MAX = 1_024


class Requests:
    """Answers calls. Safe to use from several threads.

    Args:
        destination: the one that is served.
        lease_s: how long a consumer may be silent, for it to know.
        group: whom to ask.
        operator: answers operators' calls.
        rows: told of the batches that are delivered, and of the batches that are done with.
        snapshot: whether a client id that begins without saying where gets the rows that there are.
    """

    def __init__(
        self,
        destination: str,
        lease_s: float,
        group: GroupHandle,
        operator: OperatorRequests,
        rows: BatchReader,
        *,
        snapshot: bool,
    ) -> None:
        self._destination = destination
        self._lease_s = lease_s
        self._group = group
        self._operator = operator
        self._questions = operator.questions
        self._rows = rows
        self._snapshot = snapshot
        #: (client_id, epoch) -> the subscription's filter
        self._filters: dict[tuple[str, int], str] = {}
        self._lock = threading.Lock()

    def answer(self, call: Call[Any], *, may_disturb: bool) -> Any:  # noqa: PLR0911 - one case a call
        """Return the answer to a call, as what JSON can say.

        Args:
            call: of a consumer or an operator; not a get, see `get`.
            may_disturb: whether other clients may be rolled back for it.

        Raises:
            CanalGroupError: what the call's class says.
        """
        match call:
            case Subscribe():
                return self.subscribe(call, may_disturb=may_disturb)
            case GetRange():
                return self._get_range(replace(call, may_disturb=may_disturb))
            case Ack(client_id, epoch, batch_id):
                cursor = self._group.ask(call)
                # The rings forget its rows a little later.
                self._rows.forget(client_id, epoch, batch_id)
                return {"cursor": cursor.to_json()}
            case Rollback(client_id, epoch):
                count = self._group.ask(call)
                self._rows.forget(client_id, epoch)
                return count
            case Touch() | Release() | Unsubscribe() | LeaseState():
                return self._group.ask(call)
            case Describe(table):
                return b64encode(self._questions.columns(table).serialize().to_pybytes()).decode()
            case _:
                return self._operator.answer(call)

    def filter_of(self, client_id: str, epoch: int) -> str:
        """Return a subscription's filter; ask the group if an earlier gateway made the subscription."""
        cached = self._filters.get((client_id, epoch))
        if cached is not None:
            return cached
        for client in self._group.status().get("clients", []):
            if (client["client_id"], client["epoch"]) == (client_id, epoch):
                table_filter = self._filters[client_id, epoch] = str(client["filter"])
                return table_filter
        raise ServerUnavailable(f"The group does not know client {client_id} yet.", retry_after_s=0.2)

    def subscribe(self, call: Subscribe, *, may_disturb: bool, finds_session: bool = False) -> dict[str, Any]:
        """Make a consumer the active one; raises as `answer`.

        Args:
            call: what it asks.
            may_disturb: whether other clients may be rolled back for it.
            finds_session: whether it may keep its running node itself and not tell its session.
        """
        TableFilter.of_reader(call.filter)
        start, ends, snapshot = self._start_of(call)
        at = SubscribeAt(
            call.client_id,
            call.holder,
            call.filter,
            call.session,
            call.resume,
            may_disturb=may_disturb,
            start=start,
            ends=ends,
            finds_session=finds_session,
            keep=call.keep,
            look=call.look,
            snapshot=snapshot,
        )
        try:
            epoch, cursor = self._group.ask(at)
        except ServerUnavailable as error:
            raise self._explained(error) from error
        with self._lock:
            self._filters = {key: cached for key, cached in self._filters.items() if key[0] != call.client_id}
            self._filters[call.client_id, epoch] = call.filter
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

    def _get_range(self, call: GetRange) -> dict[str, Any] | None:
        batch = self._group.ask(call)
        if batch is None:
            return None
        order = order_of(batch.headers, batch.names, batch.shards)
        return {**self.delivered(call, batch), "order": order}

    def get(self, call: Get | AckAndGet) -> tuple[GroupPosition | None, Batch | None]:
        """Return the cursor, if the call acknowledges a batch, and the next batch; None: none in time."""
        if isinstance(call, Get):
            return None, self._group.ask(replace(call, rows=None))
        cursor, batch = self._group.ask(replace(call, rows=None))
        self._rows.forget(call.client_id, call.epoch, call.batch_id)
        return cursor, batch

    def delivered(self, call: Get | AckAndGet | GetRange, batch: Batch) -> dict[str, Any]:
        """Return the answer to a call that is answered with a batch."""
        self._rows.remember(call.client_id, call.epoch, batch)
        return {
            "batch_id": batch.batch_id,
            "rows": batch.rows,
            "start": batch.start.to_json(),
            "ack": batch.ack.to_json(),
            "end": batch.end.to_json(),
        }

    def _start_of(self, call: Subscribe) -> tuple[GroupPosition | None, dict[str, Position] | None, bool]:
        """Return `start`, `ends` and `snapshot` of a `SubscribeAt`; of a client id with a cursor nothing."""
        client = client_in(self._group.status(), call.client_id)
        if client is not None and client["cursor"] is not None:
            return None, None, False
        snapshot = self._snapshot and call.start is None and not call.look
        if call.snapshot is not None:
            snapshot = call.snapshot
        if call.start not in (None, "latest"):
            return self._questions.position(str(call.start)), None, snapshot
        if not self._group.status().get("had_clients", True):
            return None, {}, snapshot
        return *self._questions.beginning(latest=snapshot or call.start is not None), snapshot


def seen_by(grant: Grant, status: dict[str, Any]) -> dict[str, Any]:
    """Return the part of an instance's state that a caller may see: only client ids that its grant allows."""
    group = status["group"]
    if "clients" not in group:
        return status
    clients = [client for client in group["clients"] if grant.sees(client["client_id"])]
    full_rings = [_full_seen_by(grant, full) for full in group["full_rings"]]
    return {**status, "group": {**group, "clients": clients, "full_rings": full_rings}}


def _full_seen_by(grant: Grant, full: dict[str, Any]) -> dict[str, Any]:
    seen = [client_id for client_id in full["clients"] if grant.sees(client_id)]
    if seen == full["clients"]:
        return full
    hidden = f"{full['shard']} waits: ring full, kept for a client id that this token may not see"
    return {**full, "clients": seen, "why": hidden}
