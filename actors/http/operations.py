"""The REST API beside operators' calls: states, samples, lines of the log, and the instance's switch.

Calls have their paths in `canal_group.actors.http.call_paths`. What changes something needs an operator's
token and is in the audit log.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request

from canal_group.actors.http.call_paths import client_of, well_formed
from canal_group.actors.http.callers import Callers
from canal_group.actors.http.changes import Changes
from canal_group.actors.http.recent_log import LIMITS, RecentLog
from canal_group.merge.calls.client_id import checked_client_id
from canal_group.merge.calls.consumers import Locate
from canal_group.merge.errors import AccessDenied
from canal_group.merge.values.position import GroupPosition
from canal_group.merge.whole import TIMES_US, WHOLE
from canal_group.zookeeper.stop_mark import StopMark

#: how long a stop waits until no server serves, seconds
STOP_WAIT_S = 30.0
#: characters of a reason
REASON_MAX = 500

_Text = Annotated[str, Body(embed=True, min_length=1, max_length=REASON_MAX)]


@dataclass(frozen=True, slots=True)
class Operations:
    """Answers the paths below /api/instances. Safe to use from several threads."""

    callers: Callers
    changes: Changes
    recent_log: RecentLog

    def router(self) -> APIRouter:
        """Return the paths."""
        router = APIRouter(prefix="/api/instances")
        get, post = router.get, router.post
        get("", summary="The instances that this server serves, or stands by for")(self.instances)
        get("/{destination}", summary="The state, as `canal-group status --json` prints it")(self.state)
        get("/{destination}/history", summary="Samples and events of the last minutes")(self.history)
        get("/{destination}/log", summary="The last lines that this server logged of it")(self.log)
        get("/{destination}/position", summary="What a start would choose on each shard")(self.position)
        get("/{destination}/clients/{client_id}", summary="A client id, with its outstanding batches")(
            self.client
        )
        post("/{destination}/stop", summary="Take it out of service on every server")(self.stop)
        post("/{destination}/start", summary="Let it be served again")(self.start)
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

    def history(
        self, request: Request, destination: str, since_us: Annotated[int, Query(ge=0, le=TIMES_US.most)] = 0
    ) -> dict[str, Any]:
        """Return samples and events after a time; only who sees every client id sees events."""
        served, grant = self.callers.reader(request, destination)
        found = served.watch(since_us)
        return found if grant.operate or not grant.client_ids else {**found, "events": []}

    def log(
        self,
        request: Request,
        destination: str,
        lines: Annotated[int, Query(ge=1, le=LIMITS.page_lines_max)] = 100,
        before: Annotated[int | None, Query(ge=1, le=WHOLE.most)] = None,
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
        return client_of(served, well_formed(lambda: checked_client_id(client_id)))

    def position(
        self, request: Request, destination: str, at: Annotated[str, Query(max_length=100)]
    ) -> dict[str, Any]:
        """Return the position of each shard at a start: `earliest`, `latest`, a time, or `-2h`."""
        served, grant = self.callers.reader(request, destination)
        with self.changes.questions.one_of(grant.name):
            found = GroupPosition.from_json(served.requests.answer(Locate(at)))
        return {shard: str(position) for shard, position in found.shards.items()}

    # ---- changing --------------------------------------------------------------------------------------

    def stop(self, request: Request, destination: str, reason: _Text) -> dict[str, Any]:
        """Take the destination out of service; an earlier stop stays in force."""
        served, grant = self.callers.operator(request, destination, "stop")
        mark = StopMark(f"{grant.name}@http", datetime.now(UTC).isoformat(timespec="seconds"), reason)
        said = self.changes.make(
            (request, served, grant),
            "stop",
            {"reason": reason},
            lambda: served.switch().stop(mark, STOP_WAIT_S),
        )
        return {"destination": destination, "said": str(said)}

    def start(self, request: Request, destination: str) -> dict[str, Any]:
        """Let the destination be served again."""
        served, grant = self.callers.operator(request, destination, "start")
        mark = self.changes.make((request, served, grant), "start", {}, lambda: served.switch().start())
        return {"destination": destination, "said": "was not stopped" if mark is None else f"was {mark}"}
