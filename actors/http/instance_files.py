"""Instance files over HTTP: read, validate and replace the file of a served instance.

A file may name other files, variables and hosts, so whoever writes it can make the server read them. Files
are therefore replaced only if `serve` was told to allow it, and by callers who may operate the instance. What
a file makes the server run, programs and plug-ins, it has to name already.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Body, Request

from canal_group.actors.admission.audit_log import AuditLog
from canal_group.actors.http.callers import Callers
from canal_group.actors.http.served import Served
from canal_group.actors.process.durable import PUBLIC, replace_file
from canal_group.conf.document import parse_document
from canal_group.conf.load import build_instance
from canal_group.conf.plugins.named import named_code
from canal_group.conf.server.server_file import read_server_file
from canal_group.merge.errors import AccessDenied, ConfigError, UsageError

#: characters of a file
FILE_CHARS_MAX = 256 << 10

#: stands for what must not be shown
HIDDEN = "(hidden)"
#: a key that would hold a secret itself
_SECRET = re.compile(
    r"""(?<![\w-])["']?(?:password|passwd|pwd|token|secret|salt)["']?[ \t]*:[ \t]*""", re.IGNORECASE
)
_QUOTED = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^']|'')*'""")

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
        """Return the text, and the digest that a replacement has to name.

        A file that can be served holds no secrets. What looks like one, because somebody has edited the file
        since, is replaced by `HIDDEN`, which is not a valid setting either.
        """
        served, _ = self.callers.operator(request, destination, "read the instance file")
        file, text = self._text(served)
        return {"file": str(file), "text": _shown(text), "digest": _digest(text), "writable": self.writable}

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
        """Raise a ConfigError if a text is not an instance file of the destination; no secret is read."""
        source = "The new file"
        _, present = self._text(served)
        refuse_new_code(present, text)
        folder = self.files().get(served.destination, Path()).absolute().parent
        settings = build_instance(
            parse_document(text, source),
            source=source,
            folder=folder,
            secrets=(),
            server=read_server_file(folder),
        )
        if settings.destination != served.destination:
            raise ConfigError(
                f"{source}: `destination` must stay {served.destination}, and is {settings.destination}."
            )


def refuse_new_code(present: str, text: str) -> None:
    """Return if a text names no plug-in and no program that the present file does not name.

    Raises:
        ConfigError: it does; or it is not YAML.
    """
    try:
        known = named_code(parse_document(present, "The served file"))
    except ConfigError:
        known = set()
    new = sorted(named_code(parse_document(text, "The new file")) - known)
    if new:
        raise ConfigError(
            f"The new file names {new[0]}, which the served one does not.",
            hint="Programs and plug-ins are named on the server's machine: edit the file there.",
        )


def _shown(text: str) -> str:
    """Return a text with the values of keys that would hold secrets replaced, whatever else it is."""
    shown: list[str] = []
    #: column of the key whose value may go on in the next lines
    open_at: int | None = None
    for line in text.splitlines():
        keys = list(_SECRET.finditer(line))
        indentation = len(line) - len(line.lstrip())
        if open_at is not None and indentation > open_at and not keys:
            continue
        open_at = keys[-1].start() if keys else None
        shown.append(_hidden(line))
    return "".join(f"{line}\n" for line in shown)


def _hidden(line: str) -> str:
    """Return a line without the values of keys that would hold secrets."""
    parts, begin = [], 0
    while key := _SECRET.search(line, begin):
        parts.append(line[begin : key.end()])
        value = line[key.end() :]
        quoted = _QUOTED.match(value)
        # A text without quotes may have anything in it: all is hidden but the braces that close the entry.
        length = quoted.end() if quoted else len(value.rstrip("}] \t"))
        parts.append(HIDDEN if length else "")
        begin = key.end() + length
    return "".join(parts) + line[begin:]


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()
