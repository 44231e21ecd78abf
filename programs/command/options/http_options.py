"""Options of `canal-group serve` for its HTTP service."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from canal_group.merge.errors import ConfigError
from canal_group.merge.well_known import HOST, HTTP_PORT

if TYPE_CHECKING:
    from canal_group.actors.http.service import HttpSettings

#: where the service listens unless told
HTTP = f"{HOST}:{HTTP_PORT}"
_PORT_MAX = 65_535

Http = Annotated[
    str,
    typer.Option(help="Where metrics, the REST API and the page are: HOST:PORT (0: a free one), or off."),
]
HttpCert = Annotated[Path | None, typer.Option(help="Its certificate, PEM; needed beyond loopback.")]
HttpKey = Annotated[Path | None, typer.Option(help="The key of that certificate, PEM.")]
AuditLog = Annotated[
    Path | None,
    typer.Option(
        help="File of the changes that operators make. Default: those over HTTP, below ~/.local/state."
    ),
]


def http_settings(
    address: str, cert: Path | None, key: Path | None, audit_log: Path | None
) -> HttpSettings | None:
    """Return the settings of the HTTP service; None: there is to be none.

    Raises:
        ConfigError: the address is not a host and port.
    """
    from canal_group.actors.http.service import HttpSettings

    if address == "off":
        return None
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > _PORT_MAX:
        raise ConfigError(f"--http is {address!r}.", hint=f"Expected host:port, such as {HTTP}, or off.")
    state = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(state) if Path(state).is_absolute() else Path.home() / ".local" / "state"
    return HttpSettings(
        host.strip("[]"),
        int(port),
        cert=cert,
        key=key,
        audit_log=audit_log or folder / "canal-group" / "audit.jsonl",
    )
