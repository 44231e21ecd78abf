"""The HTTP application: its paths, its errors, and what every answer says to browsers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.base import RequestResponseEndpoint
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles

from canal_group.actors.admission.audit_log import AuditLog
from canal_group.actors.admission.calls import ALL_QUESTIONS_MAX, QUESTIONS_MAX, Calls
from canal_group.actors.http import errors
from canal_group.actors.http.ascii_json import AsciiJson
from canal_group.actors.http.body_limit import BodyLimit
from canal_group.actors.http.call_paths import CallPaths
from canal_group.actors.http.callers import Callers, CallersOnly
from canal_group.actors.http.changes import Changes
from canal_group.actors.http.metrics.exposition import exposed
from canal_group.actors.http.metrics.instances import InstanceFamilies
from canal_group.actors.http.operations import Operations
from canal_group.actors.http.recent_log import RecentLog
from canal_group.actors.http.served import Served
from canal_group.merge.errors import CanalGroupError

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
