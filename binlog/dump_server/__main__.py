"""The dump server's process: detached from the reader that starts it, it ends when no reader needs it.

    python -m canal_group.binlog.dump_server < SOCKET

On the socket come the descriptor of the listening socket, and an order, until it ends: a JSON object with the
source's address, its password too, and the position at which the reader is that starts the dump server.
Without an order the process ends, too.

Its log is a JSON object a line, on stderr. The process prints into what started it, whose reader of lines
takes such a line for a record. JSON keeps what a source says inside its line: it can neither begin one nor
choose a record's level.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
from datetime import UTC, datetime
from typing import Any, Final

#: characters of a message, and of the end of a traceback
CHARS_MAX: Final = 8_192


class LineFormatter(logging.Formatter):
    """Formats a record as a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record's line."""
        made = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds")
        entry: dict[str, Any] = {
            "time": made.removesuffix("+00:00") + "Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage()[:CHARS_MAX],
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)[-CHARS_MAX:]
        return json.dumps(entry)


def set_up_log() -> None:
    """Log what this process has to say from now on."""
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])


#: bytes of an order that are read at a time
_READ_BYTES = 1 << 16


def main() -> int:
    """Serve until no reader has been attached for some time, or the source ends the dump."""
    if os.fork():
        return 0
    from canal_group.binlog.dump_server.dump_server import DumpServer  # noqa: PLC0415
    from canal_group.binlog.server.dump_server.wire import (  # noqa: PLC0415  the parent must end soon
        address_from,
    )
    from canal_group.merge.errors import CanalGroupError  # noqa: PLC0415

    ordered = _ordered()
    if ordered is None:
        return 0
    listener, order = ordered
    set_up_log()
    log = logging.getLogger("canal_group.binlog.dump_server")
    address = address_from(order["source"])
    try:
        with DumpServer(listener, address, order["server"], order["file"], order["offset"]) as server:
            server.run()
    except CanalGroupError as error:
        log.warning("The dump server of %s ends: %s", address.location, error)
        return 1
    return 0


def _ordered() -> tuple[socket.socket, dict[str, Any]] | None:
    """Return the listening socket and the order, once they have come; None: they never will."""
    sock = socket.socket(fileno=sys.stdin.fileno())
    order, descriptors, _, _ = socket.recv_fds(sock, _READ_BYTES, 1)
    while part := sock.recv(_READ_BYTES):
        order += part
    sock.detach()  # it stays what we read from: nothing more comes
    if not descriptors:
        return None
    return socket.socket(fileno=descriptors[0]), json.loads(order)


if __name__ == "__main__":
    sys.exit(main())
