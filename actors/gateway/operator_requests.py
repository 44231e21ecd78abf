"""Answer the requests of operators, in JSON, with the help of the group and the shards.

The gateway answers them by Flight and the HTTP service by HTTP: this is what both do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from actors.gateway.group_port import GroupPort
from actors.gateway.shard_actors import ShardActors
from actors.gateway.shard_questions import ShardQuestions
from merge.errors import UsageError
from merge.rows.chosen_types import parse_type
from merge.rows.row_key import RowKey
from merge.trace import single
from merge.values.chunk import TableName
from merge.values.gtids.gtid import parse_gtid_set
from merge.values.position import GroupPosition, Position
from merge.values.skips.skipped_event import parse_place

#: how long the actor of a new shard may take, seconds
ADD_WAIT_S = 10.0
#: holder of a client id while an operator changes its subscription
HOLDER = "an operator"
#: requests that change something -> what of their bodies is in the audit log
CHANGING: dict[str, tuple[str, ...]] = {
    "rewind": ("client_id", "to"),
    "client_rollback": ("client_id",),
    "client_unsubscribe": ("client_id",),
    "shard_policy": ("shard", "policy"),
    "shard_add": ("shard",),
    "shard_remove": ("shard", "now"),
    "shard_skip_event": ("shard", "at", "whole_transaction"),
    "schema_rebuild": ("shard",),
    "schema_resolve": ("table", "column", "type"),
}
#: requests that may search every shard's binlogs, and take as long
_SLOW = frozenset({"locate", "rewind", "trace", "trace_key"})
#: characters of a value in the audit log
AUDITED_CHARS_MAX = 500


def audited(name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the audit log says of a request that changes something; of a new shard, its name."""
    told = {key: body[key] for key in CHANGING[name] if key in body}
    if name == "shard_add" and isinstance(told.get("shard"), Mapping):
        told["shard"] = told["shard"].get("name")
    return {
        key: value if isinstance(value, bool) else str(value)[:AUDITED_CHARS_MAX]
        for key, value in told.items()
    }


def may_search(name: str, body: Mapping[str, Any]) -> bool:
    """Return whether a request may take as long as a search of binlogs."""
    return name in _SLOW or (name == "subscribe" and body.get("start") not in (None, "latest"))


class OperatorRequests:
    """Answers operators' requests by their names. Safe to use from several threads.

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
        #: by the request's name
        self.answers: dict[str, Callable[[dict[str, Any]], Any]] = {
            "status": lambda _: self.status(),
            "locate": self._locate,
            "trace": lambda body: self._trace(str(body["gtid"]), body.get("shard")),
            "trace_key": self._trace_key,
            "outstanding": self._outstanding,
            "rewind": self._rewind,
            "client_rollback": self._roll_back,
            "client_unsubscribe": self._unsubscribe,
            "shard_policy": lambda body: group.call("give_policy", str(body["shard"]), str(body["policy"])),
            "shard_add": self._add_shard,
            "shard_remove": self._remove_shard,
            "shard_skip_event": self._skip_event,
            "schema_show": lambda body: self.questions.schema(body.get("shard")),
            "schema_joined": lambda body: self.questions.joined(str(body["table"])),
            "schema_resolve": self._resolve,
            "schema_rebuild": lambda body: self.questions.rebuild_schema(str(body["shard"])),
        }

    def status(self) -> dict[str, Any]:
        """Return the state of the whole instance as a JSON object: gateway, group and shards."""
        group = self._group.status()
        return {
            "destination": self._destination,
            "now_us": time.time_ns() // 1000,
            "gateway": self._gateway(),
            "group": group,
            "shards": self._shards.status(group.get("shards", [])),
        }

    def client(self, client_id: str) -> dict[str, Any] | None:
        """Return the state of a client id; None if there is no such subscription."""
        clients = self._group.status().get("clients", [])
        return next((dict(each) for each in clients if each["client_id"] == client_id), None)

    def _known(self, client_id: str) -> dict[str, Any]:
        client = self.client(client_id)
        if client is None:
            raise UsageError(
                f"{self._destination} has no client {client_id}.", hint="canal-group status lists them."
            )
        return client

    def _locate(self, body: dict[str, Any]) -> str:
        """Return where the sources' binlogs begin or end now, or were at a time: a group position's JSON."""
        return self.questions.position(str(body["where"])).to_json()

    def _outstanding(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        client = self.client(body["client_id"])
        return [] if client is None else list(client["outstanding"])

    def _trace(self, gtid: str, shard: str | None, table: TableName | None = None) -> dict[str, Any]:
        """Return where a transaction is: read or not, in the group, and at each client id."""
        single(parse_gtid_set(gtid), gtid)
        shards = self._shards.status(self._group.status().get("shards", []))
        read = {each["shard"]: each.get("gtid_set") or "" for each in shards}
        found: dict[str, Any] = self._group.call("trace", gtid, read, shard, table)
        return {"gtid": gtid, **found}

    def _trace_key(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return where the last changes of a row are, each with what `trace` says of its transaction.

        One that the instance's rules leave out has none: nobody gets it.
        """
        shard = body.get("shard")
        table = RowKey.parse(str(body["key"])).table
        found = self.questions.changes_of(str(body["key"]), int(body["bytes_max"]), shard)
        changes = [{"shard": name, **each} for name, answer in found.items() for each in answer["changes"]]
        changes.sort(key=lambda each: int(each["commit_us"]))
        # Once for each transaction: it may change the row several times.
        last = dict.fromkeys(
            (each["gtid"], each["shard"]) for each in changes if each["gtid"] and each["kept"]
        )
        traced = {(gtid, name): self._trace(gtid, name, table) for gtid, name in last}
        searched = {
            name: {"files": answer["files"], "unknown": answer["unknown"]} for name, answer in found.items()
        }
        return {
            "key": str(body["key"]),
            "changes": [
                {**each, "trace": traced.get((each["gtid"], each["shard"])) if each["kept"] else None}
                for each in changes
            ],
            "searched": searched,
        }

    def _rewind(self, body: dict[str, Any]) -> dict[str, Any]:
        """Move the cursor of a client id that has no consumer.

        The operator takes the client id for that: so a consumer that is still active refuses it, and one that
        was cut off is fenced.
        """
        client_id = body["client_id"]
        client = self._known(client_id)
        start = self.questions.position(str(body["to"]))
        before = None if client["cursor"] is None else GroupPosition.from_json(client["cursor"])
        epoch, after = self._take(client, start=start, move=True)
        self._group.call("release", client_id, epoch)
        return {"from": None if before is None else before.to_json(), "to": after.to_json()}

    def _roll_back(self, body: dict[str, Any]) -> int:
        """Roll back the outstanding batches of a client id; its consumer's next ack is refused."""
        client = self._known(body["client_id"])
        count: int = self._group.call("rollback", client["client_id"], int(client["epoch"]), None)
        return count

    def _unsubscribe(self, body: dict[str, Any]) -> dict[str, Any]:
        """Remove a client id that has no consumer, with its cursor; return what the cursor was."""
        client = self._known(body["client_id"])
        # One that was dropped as inactive has to say where it goes on: not where sources are read again.
        epoch, _ = self._take(client, resume="now" if client["dropped"] else None)
        self._group.call("unsubscribe", client["client_id"], epoch)
        return {"client_id": client["client_id"], "cursor": client["cursor"]}

    def _take(self, client: dict[str, Any], **how: Any) -> tuple[int, GroupPosition]:
        """Become the consumer of a client id; return the epoch and the cursor.

        Raises:
            ConsumerActive: it has a consumer; nothing was changed.
        """
        taken: tuple[int, GroupPosition] = self._group.call(
            "subscribe", client["client_id"], HOLDER, str(client["filter"]), **how
        )
        return taken

    def _resolve(self, body: dict[str, Any]) -> dict[str, Any]:
        """Choose the type of a column, or take the choice back; return the table's joined schema then."""
        table, column, said = str(body["table"]), str(body["column"]), body.get("type")
        if said is not None:
            parse_type(str(said))
            known = [each["name"].lower() for each in self.questions.joined(table)["columns"]]
            if column.lower() not in known:
                raise UsageError(f"{table} has no column {column}.", hint=f"It has {', '.join(known)}.")
        self._group.call("choose_type", table, column, None if said is None else str(said))
        return self.questions.joined(table)

    def _add_shard(self, body: dict[str, Any]) -> dict[str, Any]:
        start = None if body.get("start") is None else Position.from_dict(body["start"])
        state: dict[str, Any] = self._group.call("add_shard", dict(body["shard"]), start, wait_s=ADD_WAIT_S)
        return state

    def _remove_shard(self, body: dict[str, Any]) -> dict[str, Any]:
        state: dict[str, Any] = self._group.call(
            "remove_shard", str(body["shard"]), now=bool(body.get("now"))
        )
        return state

    def _skip_event(self, body: dict[str, Any]) -> dict[str, Any]:
        """Leave out the event at which a shard has stopped; `by`, who asks, is what admitted the caller."""
        file, offset = parse_place(str(body["at"]))
        event: dict[str, Any] = self._group.call(
            "skip_event",
            str(body["shard"]),
            file,
            offset,
            whole_transaction=bool(body.get("whole_transaction")),
            by=str(body["by"]),
            at_us=time.time_ns() // 1000,
        )
        return event
