"""The dump server's process: detached from the reader that starts it, it ends when no reader needs it.

    python -m canal_group.binlog.dump_server DESCRIPTOR < ORDER

DESCRIPTOR is that of the listening socket, which the process inherits. ORDER is a JSON object: the source's
address, with its password, and the position at which the reader is that starts the dump server.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import sys


def main() -> int:
    """Serve until no reader has been attached for some time, or the source ends the dump."""
    order = json.load(sys.stdin)
    if os.fork():
        return 0
    from canal_group.binlog.dump_server.dump_server import DumpServer  # noqa: PLC0415
    from canal_group.binlog.dump_server.log import set_up_log  # noqa: PLC0415
    from canal_group.binlog.server.dump_server.wire import (  # noqa: PLC0415  the parent must end soon
        address_from,
    )
    from canal_group.merge.errors import CanalGroupError  # noqa: PLC0415

    set_up_log()
    log = logging.getLogger("canal_group.binlog.dump_server")
    listener = socket.socket(fileno=int(sys.argv[1]))
    address = address_from(order["source"])
    try:
        with DumpServer(listener, address, order["server"], order["file"], order["offset"]) as server:
            server.run()
    except CanalGroupError as error:
        log.warning("The dump server of %s ends: %s", address.location, error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
