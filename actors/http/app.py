"""The HTTP application: its paths, its errors, and what every answer says to browsers.

The REST API beside operators' calls: states, samples, lines of the log, and the instance's switch.

Calls have their paths in `canal_group.actors.http.call_paths`. What changes something needs an operator's
token and is in the audit log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Body, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.base import RequestResponseEndpoint
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from canal_group.actors.admission.audit_log import AuditLog
from canal_group.actors.admission.calls import ALL_QUESTIONS_MAX, QUESTIONS_MAX, Calls
from canal_group.actors.http import errors
from canal_group.actors.http.ascii_json import AsciiJson
from canal_group.actors.http.call_paths import CallPaths, client_of, well_formed
from canal_group.actors.http.callers import Callers, CallersOnly
from canal_group.actors.http.changes import Changes
from canal_group.actors.http.errors import TooLarge, answer_ours
from canal_group.actors.http.metrics.exposition import exposed
from canal_group.actors.http.metrics.instances import InstanceFamilies
from canal_group.actors.http.recent_log import LIMITS, RecentLog
from canal_group.actors.http.served import Served
from canal_group.merge.calls.client_id import checked_client_id
from canal_group.merge.calls.consumers import Locate
from canal_group.merge.errors import AccessDenied, CanalGroupError
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


#: bytes of a request's body
BODY_BYTES_MAX = 1 << 20


class BodyLimit:
    """Refuses a body of more than `BODY_BYTES_MAX` bytes before it is held as a whole; an ASGI middleware."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; its body is counted as it is received."""
        taken = 0

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > BODY_BYTES_MAX:
                raise _error()
            return message

        async def unless_refused(message: Message) -> None:
            # The framework has an answer of its own for whatever goes wrong while it reads a body.
            if taken <= BODY_BYTES_MAX:
                await send(message)

        try:
            await self._app(scope, counted, unless_refused)
        finally:
            if taken > BODY_BYTES_MAX:
                await answer_ours(Request(scope), _error())(scope, receive, send)


def _error() -> TooLarge:
    return TooLarge(f"The body has more than {BODY_BYTES_MAX:,} bytes.")


_PAGE = Path(__file__).with_name("page")
#: Content-Security-Policy: browsers load nothing from other hosts
_POLICY = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"


class App:
    """Makes the application.

    Args:
        served: returns the instances, by destination.
        callers: checks who calls.
        audit_log: is told of every change.
        recent_log: has the last lines of each instance's log.
        hosts: names by which this service may be addressed, against DNS rebinding; "*": any.
        starting: returns whether an instance file was given that is neither started nor refused by name.
    """

    def __init__(
        self,
        served: Callable[[], Mapping[str, Served]],
        callers: Callers,
        audit_log: AuditLog,
        recent_log: RecentLog,
        *,
        hosts: list[str],
        starting: Callable[[], bool] = lambda: False,
    ) -> None:
        self._served = served
        self._starting = starting
        #: of /ready alone, which must not wait for what others ask
        self._probes = ThreadPoolExecutor(1, thread_name_prefix="ready")
        self._callers = callers
        self._audit_log = audit_log
        app = self.asgi = FastAPI(
            title="canal-group",
            version=version("canal-group"),
            description="Operate the instances of a canal-group server.",
            default_response_class=AsciiJson,
            docs_url=None,
            redoc_url=None,
        )
        app.add_middleware(CallersOnly, callers=callers)
        app.add_middleware(BodyLimit)
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=hosts)
        app.middleware("http")(_with_headers)
        app.add_exception_handler(CanalGroupError, errors.answer_ours)
        app.add_exception_handler(RequestValidationError, errors.answer_malformed)
        app.add_exception_handler(HTTPException, errors.answer_plain)
        app.add_exception_handler(Exception, errors.answer_defect)
        questions = Calls(QUESTIONS_MAX, ALL_QUESTIONS_MAX)
        changes = Changes(audit_log, questions)
        app.include_router(Operations(callers, changes, recent_log).router())
        app.include_router(CallPaths(callers, changes).router())
        app.get("/metrics", summary="Metrics of every instance that the caller may read")(self.metrics)
        app.get("/api/instances/{destination}/metrics", summary="Metrics of one instance")(self.metrics_of)
        app.get("/api/audit", summary="The last changes that operators made")(self.audit)
        app.get("/", include_in_schema=False)(self.page)
        app.mount("/page", StaticFiles(directory=_PAGE), name="page")
        app.get("/live", summary="Whether this process answers")(self.live)
        app.get("/ready", summary="Whether each given file is served, stood by for, or refused")(self.ready)

    def page(self) -> FileResponse:
        """Return the page; it holds nothing but what the package holds, so no token is needed."""
        return FileResponse(_PAGE / "index.html")

    def metrics(self, request: Request) -> Response:
        """Return the metrics of every instance that the caller may read."""
        readable = self._callers.readable(request)
        return exposed(request, InstanceFamilies(served.state_for(grant) for served, grant in readable))

    def metrics_of(self, request: Request, destination: str) -> Response:
        """Return the metrics of one instance."""
        served, grant = self._callers.reader(request, destination)
        return exposed(request, InstanceFamilies([served.state_for(grant)]))

    def audit(self, request: Request) -> list[dict[str, Any]]:
        """Return the last changes of the instances that the caller may operate, the oldest first."""
        operated = {one.destination for one, grant in self._callers.readable(request) if grant.operate}
        return [line for line in self._audit_log.lines if line.get("destination") in operated]

    async def live(self) -> dict[str, bool]:
        """Say that this process answers; nothing is asked of it, and no thread is needed."""
        return {"live": True}

    async def ready(self) -> Response:
        """Say whether each given file is served, stood by for, or refused by name; 503 if one is not.

        It names no instance: no token is needed, so that whatever starts and stops servers may ask.
        """
        return await asyncio.get_running_loop().run_in_executor(self._probes, self._ready)

    def _ready(self) -> Response:
        starting = self._starting()
        states = [served.state() for served in self._served().values()]
        ready = [_is_ready(state) for state in states]
        active = sum(bool(state["group"].get("active")) for state in states)
        is_ready = all(ready) and not starting
        body = {"ready": is_ready, "instances": len(states), "active": active}
        return AsciiJson(body, 200 if is_ready else 503)


def _is_ready(state: Mapping[str, Any]) -> bool:
    group = state["group"]
    stands_by = bool(group.get("stopped") or group.get("active_server"))
    serves = group.get("active") and not group["cannot_open"]
    return "error" not in state["gateway"] and bool(serves or stands_by)


async def _with_headers(request: Request, go_on: RequestResponseEndpoint) -> Response:
    answer = await go_on(request)
    answer.headers["Content-Security-Policy"] = _POLICY
    answer.headers["X-Content-Type-Options"] = "nosniff"
    answer.headers["Referrer-Policy"] = "no-referrer"
    answer.headers.setdefault("Cache-Control", "no-store")
    return answer
