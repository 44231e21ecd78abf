"""Answer the calls of operators, in JSON, with the help of the group and the shards.

The gateway answers them by Flight and the HTTP service by HTTP: this is what both do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from canal_group.actors.gateway.group_port import GroupPort
from canal_group.actors.gateway.shard_actors import ShardActors
from canal_group.actors.gateway.shard_questions import ShardQuestions
from canal_group.merge.calls.call import Call
from canal_group.merge.calls.consumers import (
    Locate,
    Outstanding,
    Release,
    Rollback,
    Status,
    SubscribeAt,
    Unsubscribe,
)
from canal_group.merge.calls.operators import (
    AddShard,
    ChooseType,
    GivePolicy,
    ListClients,
    RebuildSchema,
    RemoveClient,
    RemoveShard,
    Resolve,
    Rewind,
    RollBackClient,
    SetClientAside,
    ShowJoined,
    ShowSchema,
    SkipEvent,
    Steering,
    Trace,
    TraceKey,
    TraceRead,
)
from canal_group.merge.calls.resume import Resume
from canal_group.merge.errors import ServerUnavailable, UsageError
from canal_group.merge.rows.chosen_types import parse_type
from canal_group.merge.rows.row_key import RowKey
from canal_group.merge.snapshot.client_progress import client_progress, unread_tables, without_lanes
from canal_group.merge.state_words import shard_words, shards_held
from canal_group.merge.trace import single
from canal_group.merge.values.chunk import TableName
from canal_group.merge.values.gtids.gtid import parse_gtid_set
from canal_group.merge.values.position import GroupPosition
from canal_group.merge.whole import whole

#: holder of a client id while an operator changes its subscription
HOLDER = "an operator"


def client_in(group: Mapping[str, Any], client_id: str) -> dict[str, Any] | None:
    """Return the state of a client id in that of a group; None if it has none."""
    clients = group.get("clients", [])
    return next((dict(each) for each in clients if each["client_id"] == client_id), None)


class OperatorRequests:
    """Answers operators' calls. Safe to use from several threads.

    Args:
        destination: the one that is served.
        group: whom to ask.
        shards: their actors.
        gateway: returns the gateway's state as a JSON object.
    """

    def __init__(
        self,
        destination: str,
        group: GroupPort,
        shards: ShardActors,
        gateway: Callable[[], dict[str, Any]],
    ) -> None:
        self._destination = destination
        self._group = group
        self._shards = shards
        self._gateway = gateway
        self.questions = ShardQuestions(destination, group, shards)

    def answer(self, call: Call[Any]) -> Any:  # noqa: C901, PLR0911, PLR0912 - one case a call
        """Return the answer to an operator's call, as what JSON can say.

        Raises:
            CanalGroupError: what the call's class says.
        """
        match call:
            case Status():
                return self.status()
            case Locate(where):
                return self.questions.position(where).to_json()
            case Outstanding(client_id):
                client = self.client(client_id)
                return [] if client is None else list(client["outstanding"])
            case Trace(gtid, shard):
                return self._trace(gtid, shard)
            case TraceKey():
                return self._trace_key(call)
            case Rewind():
                return self._rewind(call)
            case RollBackClient(client_id=client_id):
                client = self._client(client_id)
                batches = self._group.ask(Rollback(client_id, whole(client["epoch"])))
                return {"client_id": client_id, "batches": batches}
            case RemoveClient(client_id=client_id):
                return self._remove(client_id)
            case SetClientAside(client_id=client_id) | Steering(client_id=client_id):
                self._client(client_id)
                return self._group.ask(call)
            case ListClients():
                return self._list_clients()
            case GivePolicy() | AddShard() | RemoveShard():
                return self._group.ask(call)
            case SkipEvent():
                return self._group.ask(replace(call, at_us=time.time_ns() // 1000))
            case ShowSchema(shard):
                return self.questions.schema(shard)
            case ShowJoined(table):
                return self.questions.joined(table)
            case Resolve():
                return self._resolve(call)
            case RebuildSchema(shard=shard):
                return self.questions.rebuild_schema(shard)
            case _:
                raise AssertionError(f"{call} is not an operator's call")

    def status(self) -> dict[str, Any]:
        """Return the state of the whole instance as a JSON object: gateway, group and shards."""
        group = self._group.status()
        shards, full_rings = self._shards.status(group.get("shards", [])), group.get("full_rings", [])
        grouped = {shard["shard"]: shard for shard in group.get("shards", [])}
        clients = [
            {
                **client,
                "snapshot": client_progress(client, shards),
                "unread": unread_tables(client, shards),
            }
            for client in group.get("clients", [])
        ]
        return {
            "destination": self._destination,
            "now_us": time.time_ns() // 1000,
            "gateway": self._gateway(),
            "group": {**group, **({"clients": clients} if clients else {})},
            "shards": [
                {
                    **without_lanes(shard),
                    "words": shard_words(shard, grouped.get(shard["shard"], {}), full_rings),
                }
                for shard in shards
            ],
        }

    def client(self, client_id: str) -> dict[str, Any] | None:
        """Return the state of a client id; None if there is no such subscription.

        Raises:
            ServerUnavailable: the group is not active here, so it knows of none.
        """
        group = self._group.status()
        if not group["active"]:
            raise ServerUnavailable.not_active(
                f"The server of {self._destination}",
                self._destination,
                group.get("active_server") or "",
                group.get("stopped") or "",
            )
        return client_in(group, client_id)

    def _list_clients(self) -> dict[str, Any]:
        group = self._group.status()
        clients = [
            {
                "client_id": client["client_id"],
                "state": client["words"],
                "holder": client["holder"],
                "away_s": client["away_s"],
                "holds": shards_held(client["client_id"], group["full_rings"]),
            }
            for client in group.get("clients", [])
        ]
        return {"clients": clients}

    def _client(self, client_id: str) -> dict[str, Any]:
        client = self.client(client_id)
        if client is None:
            raise UsageError(
                f"{self._destination} has no client {client_id}.", hint="canal-group status lists them."
            )
        return client

    def _trace(self, gtid: str, shard: str | None, table: TableName | None = None) -> dict[str, Any]:
        """Return where a transaction is: read or not, in the group, and at each client id."""
        single(parse_gtid_set(gtid), gtid)
        shards = self._shards.status(self._group.status().get("shards", []))
        gtid_sets = {each["shard"]: each.get("gtid_set") or "" for each in shards}
        return {"gtid": gtid, **self._group.ask(TraceRead(gtid, gtid_sets, shard, table))}

    def _trace_key(self, call: TraceKey) -> dict[str, Any]:
        table = RowKey.parse(call.key).table
        answers = self.questions.changes_of(call.key, call.within_bytes, call.shard)
        changes = [{"shard": name, **each} for name, answer in answers.items() for each in answer["changes"]]
        changes.sort(key=lambda each: int(each["commit_us"]))
        # Once for each transaction: it may change the row several times.
        last = dict.fromkeys(
            (each["gtid"], each["shard"]) for each in changes if each["gtid"] and each["kept"]
        )
        traced = {(gtid, name): self._trace(gtid, name, table) for gtid, name in last}
        searched = {
            name: {"files": answer["files"], "unknown": answer["unknown"]} for name, answer in answers.items()
        }
        return {
            "key": call.key,
            "changes": [
                {**each, "trace": traced.get((each["gtid"], each["shard"])) if each["kept"] else None}
                for each in changes
            ],
            "searched": searched,
        }

    def _rewind(self, call: Rewind) -> dict[str, Any]:
        unknown = {"client_id": call.client_id, "cursor": None, "filter": ""}
        client = (self.client(call.client_id) or unknown) if call.new else self._client(call.client_id)
        start = self.questions.position(call.to)
        before = None if client["cursor"] is None else GroupPosition.from_json(client["cursor"])
        epoch, after = self._take(client, start=start, move=True, snapshot=call.snapshot)
        self._group.ask(Release(call.client_id, epoch))
        return {"from": None if before is None else before.to_json(), "to": after.to_json()}

    def _remove(self, client_id: str) -> dict[str, Any]:
        client = self._client(client_id)
        # One that was dropped as inactive has to say where it goes on: not where sources are read again.
        epoch, _ = self._take(client, resume=Resume.NOW if client["dropped"] else None)
        self._group.ask(Unsubscribe(client["client_id"], epoch))
        return {"client_id": client["client_id"], "cursor": client["cursor"]}

    def _take(self, client: dict[str, Any], **how: Any) -> tuple[int, GroupPosition]:
        """Become the consumer of a client id; return the epoch and the cursor.

        Raises:
            ConsumerActive: it has a consumer; nothing was changed.
        """
        return self._group.ask(SubscribeAt(client["client_id"], HOLDER, str(client["filter"]), **how))

    def _resolve(self, call: Resolve) -> dict[str, Any]:
        if call.type is not None:
            parse_type(call.type)
            columns = [each["name"].lower() for each in self.questions.joined(call.table)["columns"]]
            if call.column.lower() not in columns:
                raise UsageError(
                    f"{call.table} has no column {call.column}.", hint=f"It has {', '.join(columns)}."
                )
        self._group.ask(ChooseType(call.table, call.column, call.type))
        return self.questions.joined(call.table)
