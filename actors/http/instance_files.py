"""Instance files over HTTP: read, validate and replace the file of a served instance.

A file may name other files, variables and hosts, so whoever writes it can make the server read them. Files
are therefore replaced only if `serve` was told to allow it, and by callers who may operate the instance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Body, Request

from actors.admission.audit_log import AuditLog
from actors.http.callers import Callers
from actors.http.served import Served
from actors.process.durable import PUBLIC, replace_file
from conf.document import parse_document
from conf.load import build_instance
from merge.errors import AccessDenied, ConfigError, UsageError

#: characters of a file
FILE_CHARS_MAX = 256 << 10

_Text = Annotated[str, Body(embed=True, max_length=FILE_CHARS_MAX)]


@dataclass(frozen=True, slots=True)
class InstanceFiles:
    """Answers the paths of files. Safe to use from several threads."""

    callers: Callers
    audit_log: AuditLog
    #: returns the files, by destination
    files: Callable[[], Mapping[str, Path]]
    #: whether files may be replaced
    writable: bool

    def router(self) -> APIRouter:
        """Return the paths."""
        router = APIRouter(prefix="/api/instances/{destination}/file")
        router.get("", summary="The instance file's text")(self.read)
        router.post("/validate", summary="What is wrong with a text, as `canal-group check` says it")(
            self.validate
        )
        router.put("", summary="Replace the instance file")(self.put)
        return router

    def read(self, request: Request, destination: str) -> dict[str, Any]:
        """Return the text, and the digest that a replacement has to name. Secrets are not in it."""
        served, _ = self.callers.operator(request, destination, "read the instance file")
        file, text = self._text(served)
        return {"file": str(file), "text": text, "digest": _digest(text), "writable": self.writable}

    def validate(self, request: Request, destination: str, text: _Text) -> dict[str, Any]:
        """Return whether a text is an instance file of this destination, and what is wrong with it."""
        served, _ = self.callers.operator(request, destination, "validate an instance file")
        try:
            self._check(served, text)
        except ConfigError as error:
            return {"ok": False, "error": str(error)}
        return {"ok": True, "error": None}

    def put(
        self, request: Request, destination: str, text: _Text, digest: Annotated[str, Body(embed=True)]
    ) -> dict[str, Any]:
        """Replace the file, which `serve` then takes over: shards join and leave, or the instance restarts.

        `digest` is that of the text that was read before: if another operator was faster, nothing is written.
        """
        served, grant = self.callers.operator(request, destination, "replace the instance file")
        if not self.writable:
            raise AccessDenied(
                "This server does not let instance files be replaced over HTTP.",
                hint="Edit the file on its machine, or start it with `serve --http-edit`.",
            )
        self._check(served, text)

        def replace() -> None:
            file, before = self._text(served)
            if _digest(before) != digest:
                raise UsageError(
                    f"{file.name} was changed meanwhile; nothing was written.",
                    hint="Read it again, and make your change anew.",
                )
            try:
                replace_file(file.resolve(), text, PUBLIC)
            except OSError as error:
                raise ConfigError(f"{file} cannot be written ({error.strerror}).") from error

        host = request.client.host if request.client is not None else "unknown"
        details = {"digest": _digest(text)}
        self.audit_log.changing(
            f"{grant.name} at {host}", "http", destination, "replace the instance file", details, replace
        )
        return {"digest": _digest(text)}

    def _text(self, served: Served) -> tuple[Path, str]:
        file = self.files().get(served.destination)
        if file is None:
            raise UsageError(f"{served.destination} is not served any more.")
        try:
            return file, file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{file} cannot be read ({error}).") from error

    def _check(self, served: Served, text: str) -> None:
        """Raise a ConfigError if a text is no instance file of the destination; no secret is read."""
        source = "The new file"
        folder = self.files().get(served.destination, Path()).absolute().parent
        settings = build_instance(parse_document(text, source), source=source, folder=folder, secrets=())
        if settings.destination != served.destination:
            raise ConfigError(
                f"{source}: `destination` must stay {served.destination}, and is {settings.destination}."
            )


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()
