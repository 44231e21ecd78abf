"""Handshake: what a ZooKeeper server decides of a session, and how long an attempt to regain one may take.

kazoo gives an attempt to connect the whole of the session's timeout, or its part for each host. A server that
is being restarted may accept a connection and never answer on it, and a host that lost its power answers
nothing: one such attempt, and the session is over, although a server was there in time.
"""

from __future__ import annotations

from typing import Any

from kazoo.protocol.serialization import Connect

#: attempts that fail by silence and still leave time for one more, beside one for each host
SPARE_ATTEMPTS = 3
#: seconds that a TCP connection may take in any case: a lost first packet is sent again after one second
TCP_CONNECT_MIN_S = 1.5


class Handshake:
    """Bounds a client's attempts to connect while it has a session, and notes the session's timeout.

    Args:
        client: a KazooClient that was not started.
        session_timeout_s: the timeout that it asks for, seconds.
    """

    def __init__(self, client: Any, session_timeout_s: float) -> None:
        #: seconds of silence after which the session ends. The server bounds it to between 2 and 20 of its
        #: ticks; a client that assumes more would continue to serve after its session has expired.
        self.negotiated_s = session_timeout_s
        self._client = client
        # kazoo reports neither, and has no setting for it.
        self._connection = client._connection  # noqa: SLF001
        self._invoke = self._connection._invoke  # noqa: SLF001
        self._connection._invoke = self._ask  # noqa: SLF001
        self._create_connection = client.handler.create_connection
        client.handler.create_connection = self._connect

    def _connect(self, *args: Any, timeout: float, **options: Any) -> Any:
        if self._client._session_id:  # noqa: SLF001
            timeout = min(timeout, max(TCP_CONNECT_MIN_S, self._attempt_s()))
        return self._create_connection(*args, timeout=timeout, **options)

    def _ask(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        if not isinstance(request, Connect):
            return self._invoke(timeout, request, xid)
        if request.session_id:
            timeout = min(timeout, self._attempt_s())
        answer = self._invoke(timeout, request, xid)
        if answer[0].time_out > 0:
            self.negotiated_s = answer[0].time_out / 1000
        return answer

    def _attempt_s(self) -> float:
        return self.negotiated_s / (SPARE_ATTEMPTS + len(self._client.hosts))
