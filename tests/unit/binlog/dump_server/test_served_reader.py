"""What a dump server takes from a keeper, which says each second, or more often, what it needs."""

from __future__ import annotations

import json
import socket

from canal_group.binlog.dump_server.served_reader import Kept, ServedReader
from canal_group.binlog.server.dump_server.wire import REQUEST_BYTES_MAX, packets_of
from canal_group.merge.values.position import Position


def test_the_last_of_many_positions_is_taken() -> None:
    """A dump server that is busy leaves a keeper's positions unread, more bytes than one request may have."""
    positions = [Position("mysql-bin.000001", 4 + number) for number in range(300)]
    said = [json.dumps({"keeps": "a/s", "position": each.to_dict()}).encode() for each in positions]
    dump_server, keeper = socket.socketpair()
    with dump_server, keeper:
        served, kept = ServedReader(dump_server), None
        requests = b"".join(map(packets_of, said))
        assert len(requests) > 2 * REQUEST_BYTES_MAX
        keeper.sendall(requests)
        while kept != Kept("a/s", positions[-1]):
            kept = served.receive() or kept
            assert kept is not None
        assert served.receive() is None
