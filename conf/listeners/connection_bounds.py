"""Bounds of a listener's connections: how many there may be, and what they may send."""

from __future__ import annotations

from canal_group.conf.value import Count, Seconds, Settings


class ConnectionBounds(Settings):
    """What the connections of a Flight or HTTP server may be and send. The defaults are the gateway's."""

    #: connections on which a call was admitted; if no token is required, any call
    connections_max: Count = 1_024
    #: other connections, how long each may stay so, and the bytes that all of them together may send
    unauthenticated_max: Count = 64
    unauthenticated_s: Seconds = 10.0
    unauthenticated_bytes_max: Count = 2 << 20
    #: approximate bytes of a request
    request_bytes_max: Count = 16 << 20
