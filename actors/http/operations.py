"""The REST API: what `canal-group` does to a running instance, as HTTP.

Each path asks what the command asks: `actors.gateway.operator_requests` and the instance's switch. Paths that
change something need an operator's token and are in the audit log.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Body, Query, Request

from actors.admission.access import Grant
from actors.admission.audit_log import AuditLog, audited
from actors.admission.calls import Calls
from actors.http.callers import Callers
from actors.http.errors import Malformed, NotFound
from actors.http.recent_log import LIMITS, RecentLog
from actors.http.served import Served
from canal_group.zookeeper.stop_mark import StopMark
from merge.calls.client_id import checked_client_id
from merge.calls.consumers import Locate
from merge.calls.operators import (
    AddShard,
    GivePolicy,
    Operation,
    RebuildSchema,
    RemoveClient,
    RemoveShard,
    Resolve,
    Rewind,
    RollBackClient,
    ShowJoined,
    ShowSchema,
    SkipEvent,
)
from merge.errors import AccessDenied, UsageError
from merge.values.member import Policy
from merge.values.position import GroupPosition

#: how long a stop waits until no server serves, seconds
STOP_WAIT_S = 30.0
#: characters of a reason
REASON_MAX = 500
#: characters of a place in a binlog
AT_MAX = 300

T = TypeVar("T")
_Text = Annotated[str, Body(embed=True, min_length=1, max_length=REASON_MAX)]


@dataclass(frozen=True, slots=True)
class Operations:
    """Answers the paths below /api/instances. Safe to use from several threads."""

    callers: Callers
    audit_log: AuditLog
    recent_log: RecentLog
    #: asked of actors and sources: they take as long as those do
    questions: Calls

    def router(self) -> APIRouter:
        """Return the paths."""
        router = APIRouter(prefix="/api/instances")
        get, post, put, delete = router.get, router.post, router.put, router.delete
        get("", summary="The instances that this server serves, or stands by for")(self.instances)
        get("/{destination}", summary="The state, as `canal-group status --json` prints it")(self.state)
        get("/{destination}/history", summary="Samples and events of the last minutes")(self.history)
        get("/{destination}/log", summary="The last lines that this server logged of it")(self.log)
        get("/{destination}/position", summary="What a start would choose on each shard")(self.position)
        post("/{destination}/stop", summary="Take it out of service on every server")(self.stop)
        post("/{destination}/start", summary="Let it be served again")(self.start)
        post("/{destination}/shards", summary="Add a shard")(self.add_shard)
        post("/{destination}/shards/{shard}/{policy}", summary="Hold, skip, or resume by the settings")(
            self.give_policy
        )
        delete("/{destination}/shards/{shard}", summary="Remove a shard")(self.remove_shard)
        post("/{destination}/shards/{shard}/events/skip", summary="Leave out the event at which it stopped")(
            self.skip_event
        )
        get("/{destination}/shards/{shard}/schema", summary="By which definitions its rows are read")(
            self.schema
        )
        post("/{destination}/shards/{shard}/schema/rebuild", summary="Begin its schema history anew")(
            self.rebuild_schema
        )
        get("/{destination}/tables/{table}", summary="The columns that a table has for consumers")(
            self.joined
        )
        put("/{destination}/tables/{table}/columns/{column}/type", summary="Choose a column's type")(
            self.resolve
        )
        get("/{destination}/clients/{client_id}", summary="A client id, with its outstanding batches")(
            self.client
        )
        post("/{destination}/clients/{client_id}/rollback", summary="Roll its outstanding batches back")(
            self.roll_back
        )
        post("/{destination}/clients/{client_id}/rewind", summary="Move its cursor")(self.rewind)
        delete("/{destination}/clients/{client_id}", summary="Remove it, with its cursor")(self.unsubscribe)
        return router

    # ---- reading ---------------------------------------------------------------------------------------

    def instances(self, request: Request) -> list[dict[str, Any]]:
        """Return a line for each instance that the caller may read."""
        found = []
        for served, grant in self.callers.readable(request):
            group = served.state()["group"]
            found.append(
                {
                    "destination": served.destination,
                    "uri": served.uri,
                    "shards": len(served.settings.shards),
                    "operate": grant.operate,
                    "active": bool(group.get("active")),
                    "active_server": group.get("server" if group.get("active") else "active_server"),
                    "stopped": group.get("stopped"),
                    "error": group.get("error"),
                }
            )
        return found

    def state(self, request: Request, destination: str) -> dict[str, Any]:
        """Return the state of an instance."""
        served, grant = self.callers.reader(request, destination)
        return {**served.state_for(grant), "operate": grant.operate}

    def history(self, request: Request, destination: str, since_us: int = 0) -> dict[str, Any]:
        """Return samples and events after a time; only who sees every client id sees events."""
        served, grant = self.callers.reader(request, destination)
        found = served.watch(since_us)
        return found if grant.operate or not grant.client_ids else {**found, "events": []}

    def log(
        self,
        request: Request,
        destination: str,
        lines: Annotated[int, Query(ge=1, le=LIMITS.page_lines_max)] = 100,
        before: Annotated[int | None, Query(ge=1)] = None,
    ) -> dict[str, Any]:
        """Return the last lines of the log, or those before a line; see `RecentLog.page`.

        Lines name client ids, so only a caller who sees all of them may read them. Tracebacks are for
        operators.
        """
        served, grant = self.callers.reader(request, destination)
        if grant.client_ids and not grant.operate:
            raise AccessDenied(
                f"The log of {destination} names all client ids, and the token of {grant.name} allows some.",
                hint="Use one without `client_ids`, or with `operate`.",
            )
        page = self.recent_log.page(served.destination, lines, before)
        if not grant.operate:
            for line in page["lines"]:
                line.pop("exception", None)
        return page

    def client(self, request: Request, destination: str, client_id: str) -> dict[str, Any]:
        """Return the state of a client id."""
        served, grant = self.callers.reader(request, destination)
        grant.check(destination, client_id)
        return _client(served, client_id)

    def position(
        self, request: Request, destination: str, at: Annotated[str, Query(max_length=100)]
    ) -> dict[str, Any]:
        """Return the position of each shard at a start: `earliest`, `latest`, a time, or `-2h`."""
        served, grant = self.callers.reader(request, destination)
        with self.questions.one_of(grant.name):
            found = GroupPosition.from_json(served.requests.answer(Locate(at)))
        return {shard: str(position) for shard, position in found.shards.items()}

    def schema(self, request: Request, destination: str, shard: str) -> Any:
        """Return what a shard knows of its source's tables."""
        served, grant = self.callers.operator(request, destination, "schema show")
        check_shard(served, shard)
        with self.questions.one_of(grant.name):
            return served.requests.answer(ShowSchema(shard))

    def joined(self, request: Request, destination: str, table: str) -> Any:
        """Return the joined schema of a table, and what each shard has of it."""
        served, grant = self.callers.operator(request, destination, "schema joined")
        with self.questions.one_of(grant.name):
            return served.requests.answer(ShowJoined(table))

    # ---- changing --------------------------------------------------------------------------------------

    def stop(self, request: Request, destination: str, reason: _Text) -> dict[str, Any]:
        """Take the destination out of service; an earlier stop stays in force."""
        served, grant = self.callers.operator(request, destination, "stop")
        mark = StopMark(f"{grant.name}@http", datetime.now(UTC).isoformat(timespec="seconds"), reason)
        said = self._change(
            (request, served, grant),
            "stop",
            {"reason": reason},
            lambda: served.switch().stop(mark, STOP_WAIT_S),
        )
        return {"destination": destination, "said": str(said)}

    def start(self, request: Request, destination: str) -> dict[str, Any]:
        """Let the destination be served again."""
        served, grant = self.callers.operator(request, destination, "start")
        mark = self._change((request, served, grant), "start", {}, lambda: served.switch().start())
        return {"destination": destination, "said": "was not stopped" if mark is None else f"was {mark}"}

    def add_shard(
        self, request: Request, destination: str, shard: Annotated[dict[str, Any], Body(embed=True)]
    ) -> Any:
        """Add a shard, given as an entry of `shards` in an instance file."""
        return self._operate(request, destination, "shard add", AddShard(shard))

    def give_policy(
        self, request: Request, destination: str, shard: str, policy: Literal["hold", "skip", "resume"]
    ) -> Any:
        """Let the group wait for a silent shard, go on without it, or do as the settings say."""
        call = GivePolicy(shard, Policy(policy))
        return self._operate(request, destination, f"shard {policy}", call)

    def skip_event(
        self,
        request: Request,
        destination: str,
        shard: str,
        at: Annotated[str, Body(embed=True, max_length=AT_MAX)],
        *,
        whole_transaction: Annotated[bool, Body(embed=True)] = False,
    ) -> Any:
        """Leave out the event at which a shard has stopped, or its transaction; consumers get a mark."""
        call = SkipEvent(shard, at, whole_transaction)
        return self._operate(request, destination, "shard skip-event", call)

    def remove_shard(self, request: Request, destination: str, shard: str, *, now: bool = False) -> Any:
        """Remove a shard when what it has committed is acknowledged, or at once."""
        return self._operate(request, destination, "shard remove", RemoveShard(shard, now))

    def rebuild_schema(self, request: Request, destination: str, shard: str) -> Any:
        """Let a shard forget its schema history: a new one begins with what its source shows."""
        return self._operate(request, destination, "schema rebuild", RebuildSchema(shard))

    def resolve(
        self,
        request: Request,
        destination: str,
        table: str,
        column: str,
        kind: Annotated[str | None, Body(embed=True, alias="type", max_length=100)],
    ) -> Any:
        """Choose the type that a column has for every consumer; null takes the choice back."""
        return self._operate(request, destination, "schema resolve", Resolve(table, column, kind))

    def roll_back(self, request: Request, destination: str, client_id: str) -> dict[str, Any]:
        """Roll back the outstanding batches of a client id; they are delivered again."""
        count = self._operate(request, destination, "rollback", RollBackClient(client_id))
        return {"client_id": client_id, "batches": count}

    def rewind(
        self, request: Request, destination: str, client_id: str, to: Annotated[str, Body(embed=True)]
    ) -> Any:
        """Move the cursor of a client id that has no consumer to a start."""
        return self._operate(request, destination, "rewind", Rewind(client_id, to))

    def unsubscribe(self, request: Request, destination: str, client_id: str) -> Any:
        """Remove a client id that has no consumer, and its cursor."""
        return self._operate(request, destination, "unsubscribe", RemoveClient(client_id))

    def _operate(self, request: Request, destination: str, operation: str, call: Operation[Any]) -> Any:
        """Make a change by a call; a shard or client id that it names has to exist.

        Args:
            request: of the caller, who has to have the right to the operation.
            destination: the instance.
            operation: as a grant lists it.
            call: what is changed.
        """
        served, grant = self.callers.operator(request, destination, operation)
        shard = getattr(call, "shard", None)
        if isinstance(shard, str):  # One that is to be added is a mapping.
            check_shard(served, shard)
        if isinstance(call, Rewind | RollBackClient | RemoveClient):
            _client(served, call.client_id)
        call = replace(call, by=grant.name)
        answer = partial(served.requests.answer, call)
        return self._change((request, served, grant), call.declared.name, audited(call), answer)

    def _change(
        self,
        caller: tuple[Request, Served, Grant],
        what: str,
        details: dict[str, Any],
        change: Callable[[], T],
    ) -> T:
        request, served, grant = caller
        host = request.client.host if request.client is not None else "unknown"
        who = f"{grant.name} at {host}"
        with self.questions.one_of(grant.name):
            try:
                return self.audit_log.changing(who, "http", served.destination, what, details, change)
            finally:
                served.changed()


def check_shard(served: Served, shard: str) -> None:
    """Raise NotFound if an instance that is served here has no such shard."""
    known = [each["shard"] for each in served.state()["group"].get("shards", ())]
    if known and shard not in known:
        raise NotFound(f"{served.destination} has no shard {shard}.", hint=f"It has {', '.join(known)}.")


def check_form(parse: Callable[[str], object], text: str) -> None:
    """Raise Malformed unless a text can be parsed."""
    try:
        parse(text)
    except UsageError as error:
        raise Malformed(error.message, hint=error.hint) from error


def _client(served: Served, client_id: str) -> dict[str, Any]:
    check_form(checked_client_id, client_id)
    found = served.requests.client(client_id)
    if found is None:
        raise NotFound(f"{served.destination} has no client {client_id}.", hint="Its state lists them.")
    return found
