"""An operator's calls: change which shards a running instance has, and which of them it waits for."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from canal_group.gateway.gateway_client import GatewayClient, fields
from canal_group.gateway.operator_token import find_token
from canal_group.gateway.tls import UNSAID, Tls
from merge.calls.consumers import Status
from merge.calls.operators import (
    AddShard,
    GivePolicy,
    RebuildSchema,
    RemoveShard,
    Resolve,
    Rewind,
    ShowJoined,
    ShowSchema,
    SkipEvent,
    Trace,
    TraceKey,
)
from merge.errors import ServerUnavailable
from merge.values.member import Policy
from merge.values.position import Position
from merge.values.skips.skipped_event import Unit

#: polling interval while waiting for a change to complete, seconds
LOOK_EVERY_S = 0.3


class Operator:
    """Changes a running instance through its gateway. Safe to use from several threads.

    Args:
        uri: the gateway, "grpc://host:port" or "grpc+tls://host:port".
        destination: the logical instance.
        token: of a client that may operate; None: the one that `serve` stores for its own user on this
            machine, if its settings name no clients.
        tls: the authorities that we trust, and our certificate.
    """

    def __init__(self, uri: str, destination: str, token: str | None = None, tls: Tls = UNSAID) -> None:
        self.destination = destination
        self._gateway_client = GatewayClient(uri, destination, find_token if token is None else token, tls)

    def status(self) -> dict[str, Any]:
        """Return the state of the instance, as `canal-group status --json` prints it."""
        return self._gateway_client.ask_for(Status(), fields)

    def trace(self, gtid: str, shard: str | None = None) -> dict[str, Any]:
        """Return where a transaction is: which shards have read it, in the group, and at each client id.

        Args:
            gtid: `uuid:42`, or `0-1-42`.
            shard: whose transaction it is; None: of the only one that has it. Servers of MariaDB with the
                same domain and server_id number their transactions alike.

        Raises:
            UsageError: that is not the GTID of one transaction, or several shards have it; or there is no
                such shard.
        """
        return self._gateway_client.ask_for(Trace(gtid, shard), fields)

    def trace_key(self, key: str, bytes_max: int, shard: str | None = None) -> dict[str, Any]:
        """Return where the last changes of a row are, each with what `trace` says of its transaction.

        Args:
            key: `schema.table:primary key`, as consumers see it; the values of a key of several columns are
                separated by commas.
            bytes_max: how much of the end of each shard's binlog is searched.
            shard: the only one that is searched; None: every shard.

        Raises:
            UsageError: the text names no row, or does not fit the table's primary key; or there is no such
                shard.
        """
        return self._gateway_client.ask_for(TraceKey(key, bytes_max, shard), fields)

    def hold(self, shard: str) -> dict[str, Any]:
        """Let the group wait for a shard that is silent, whatever the settings say; return its state.

        This holds, as `skip` does, until another call changes it or another server is elected.

        Raises:
            UsageError: there is no such shard.
        """
        return self._policy(shard, Policy.HOLD)

    def skip(self, shard: str) -> dict[str, Any]:
        """Let the group go on without a shard; its rows may then be flagged late. Return its state.

        If one of its transactions was delivered in part, it is rolled back: consumers get RolledBack, and the
        transaction is delivered again as a whole.

        Raises:
            UsageError: there is no such shard, or no other shard would be left.
        """
        return self._policy(shard, Policy.SKIP)

    def resume(self, shard: str) -> dict[str, Any]:
        """Apply the settings to a shard again, after `hold` or `skip`; return its state."""
        return self._policy(shard, Policy.RESUME)

    def add(self, shard: Mapping[str, Any], start: Position | None = None) -> dict[str, Any]:
        """Add a shard to the running stream; return its state.

        It has joined for good when `joined` returns True. Keys of its first rows are raised to those that
        were delivered already.

        Args:
            shard: as an entry of `shards` in an instance file; the server reads its secrets.
            start: its start position; None: as `shard` says.

        Raises:
            ConfigError: the definition is invalid.
            UsageError: the name belongs to an existing shard, or to one that left.
        """
        return self._gateway_client.ask_for(AddShard(dict(shard), start), fields)

    def remove(self, shard: str, *, now: bool = False) -> dict[str, Any]:
        """Remove a shard; return its state, or what was dropped.

        Args:
            shard: its name, which cannot be used again.
            now: drop the rows that are not acknowledged; consumers get RolledBack. `rows_dropped` of them had
                been read, and `left_at` is the position of each cursor. Otherwise the shard leaves when
                everything that it has committed by now is acknowledged; `left` waits for that.

        Raises:
            UsageError: there is no such shard, it is the only one, or it cannot be drained.
        """
        return self._gateway_client.ask_for(RemoveShard(shard, now), _dropped if now else fields)

    def skip_event(self, shard: str, at: str, *, whole_transaction: bool = False) -> dict[str, Any]:
        """Leave out the event at which a shard has stopped; return it, and whether that was done `already`.

        The shard goes on after it within a second or two. Each consumer gets a mark in its place, see
        `canal_group.SkipMark`.

        Args:
            shard: its name.
            at: the event, `FILE:POS`, as the shard's error says.
            whole_transaction: whether to leave out the other rows of its transaction, too.

        Raises:
            UsageError: there is no such shard, or it has not stopped there; nothing was changed.
        """
        return self._gateway_client.ask_for(SkipEvent(shard, at, whole_transaction), _skipped)

    def rewind(self, client_id: str, to: str) -> dict[str, Any]:
        """Move the cursor of a client id, backwards or forwards; return the cursor `from` and `to`, as JSON.

        Backwards, what it had acknowledged since is delivered again, and the sources are read again for it:
        other consumers get RolledBack. Forwards, what lies in between is not delivered to it.

        Args:
            client_id: the client id. No consumer may be active under it.
            to: a start, see `canal_group.connect`.

        Raises:
            ConsumerActive: it has a consumer; nothing was changed.
            UsageError: there is no such client id.
            ConfigError: `to` is not a start.
            PositionPurged: a source no longer has changes from there.
        """
        return self._gateway_client.ask_for(Rewind(client_id, to), _moved)

    def schema(self, shard: str | None = None) -> dict[str, list[dict[str, Any]]]:
        """Return what each shard knows of its source's tables, where reading is: JSON objects, by shard.

        Args:
            shard: only this one; None: all.

        Raises:
            UsageError: there is no such shard.
        """
        return self._gateway_client.ask_for(ShowSchema(shard), _tables)

    def joined_schema(self, table: str) -> dict[str, Any]:
        """Return the joined schema of a table, and what each shard has of it: a JSON object.

        Args:
            table: `schema.table`, as consumers see it.

        Raises:
            UsageError: no shard has such a table.
        """
        return self._gateway_client.ask_for(ShowJoined(table), fields)

    def resolve_column(self, table: str, column: str, kind: str | None) -> dict[str, Any]:
        """Choose the type that a column has for every consumer; return the table's joined schema then.

        The choice is stored beside the cursors.

        Args:
            table: `schema.table`, as consumers see it.
            column: its name, in any case.
            kind: `text`, `bigint`, `decimal(20,4)` and so on; None: take the choice back.

        Raises:
            UsageError: there is no such table, column or type, or no choice to take back.
        """
        return self._gateway_client.ask_for(Resolve(table, column, kind), fields)

    def rebuild_schema(self, shard: str) -> None:
        """Let a shard forget its schema history: a new one begins with what its source shows.

        Raises:
            UsageError: there is no such shard, or it reads files.
        """
        self._gateway_client.ask_for(RebuildSchema(shard), fields)

    def joined(self, shard: str, timeout_s: float) -> bool:
        """Wait until a shard is a member that every cursor has; return whether that happened in time."""
        return self._became(shard, "member", timeout_s)

    def left(self, shard: str, timeout_s: float) -> bool:
        """Wait until no cursor has a shard that is leaving; return whether that happened in time."""
        return self._became(shard, "left", timeout_s)

    def close(self) -> None:
        """Close the connection."""
        self._gateway_client.close()

    def _policy(self, shard: str, policy: Policy) -> dict[str, Any]:
        return self._gateway_client.ask_for(GivePolicy(shard, policy), _state)

    def _became(self, shard: str, role: str, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while True:
            if self._is(shard, role):
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(LOOK_EVERY_S)

    def _is(self, shard: str, role: str) -> bool:
        try:
            reconciled, roles = self._gateway_client.ask_for(Status(), _roles)
        except ServerUnavailable:
            return False
        return reconciled and roles.get(shard, "left") == role


def _state(value: Any) -> dict[str, Any]:
    """Return a shard's state."""
    return {**fields(value), "skipped": bool(value["skipped"])}


def _skipped(value: Any) -> dict[str, Any]:
    """Return an event that is left out."""
    return {
        **fields(value),
        "already": bool(value["already"]),
        "by": str(value["by"]),
        "unit": Unit(value["unit"]),
    }


def _tables(value: Any) -> dict[str, list[dict[str, Any]]]:
    """Return the tables of each shard."""
    return {str(shard): [fields(table) for table in tables] for shard, tables in fields(value).items()}


def _moved(value: Any) -> dict[str, Any]:
    """Return between which cursors a client id was moved."""
    return {**fields(value), "to": str(value["to"])}


def _dropped(value: Any) -> dict[str, Any]:
    """Return what was dropped with a shard."""
    rows, left_at = int(value["rows_dropped"]), dict(value["left_at"])
    return {**fields(value), "rows_dropped": rows, "left_at": left_at}


def _roles(value: Mapping[str, Any]) -> tuple[bool, dict[str, str]]:
    """Return whether an instance's group is reconciled, and the roles of its shards."""
    group = value["group"]
    return bool(group.get("reconciled")), {one["shard"]: one["role"] for one in group.get("shards", [])}
