"""Changes that callers make over HTTP: limited in number, in the audit log, and seen by the next state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import Request

from canal_group.actors.admission.access import Grant
from canal_group.actors.admission.audit_log import AuditLog
from canal_group.actors.admission.calls import Calls
from canal_group.actors.http.served import Served

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Changes:
    """Makes changes. Safe to use from several threads."""

    audit_log: AuditLog
    #: those that are being answered
    questions: Calls

    def make(
        self,
        caller: tuple[Request, Served, Grant],
        what: str,
        details: dict[str, Any],
        change: Callable[[], T],
    ) -> T:
        """Make a change; raises what `change` and the audit log raise.

        Args:
            caller: the request, the instance, and what its caller may do.
            what: the operation, for the audit log.
            details: its arguments, without secrets.
            change: makes it.
        """
        request, served, grant = caller
        host = request.client.host if request.client is not None else "unknown"
        who = f"{grant.name} at {host}"
        with self.questions.one_of(grant.name):
            try:
                return self.audit_log.changing(who, "http", served.destination, what, details, change)
            finally:
                served.changed()
