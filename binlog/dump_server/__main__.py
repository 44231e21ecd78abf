"""The dump server's process: detached from the reader that starts it, it ends when no reader needs it.

    python -m canal_group.binlog.dump_server < SOCKET

On the socket come the descriptor of the listening socket, and an order, until it ends: a JSON object with the
source's address, its password too, and the position at which the reader is that starts the dump server.
Without an order the process ends, too.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
from typing import Any

#: bytes of an order that are read at a time
_READ_BYTES = 1 << 16


def main() -> int:
    """Serve until no reader has been attached for some time, or the source ends the dump."""
    if os.fork():
        return 0
    from canal_group.binlog.dump_server.dump_server import DumpServer  # noqa: PLC0415
    from canal_group.binlog.dump_server.log import set_up_log  # noqa: PLC0415
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
