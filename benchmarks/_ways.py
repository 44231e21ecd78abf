"""Ways of rows: how they pass from one process of an instance to the next, for the benchmark that compares.

An instance lends rows in shared memory where both ends are on one machine, and sends them by Flight over TCP
where they are not. Here either is chosen for each of the two hops, and Flight over a Unix socket as a third,
which the product does not have. Calls stay as they are: only rows take another way.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from pyarrow import flight
from ray import cloudpickle

from benchmarks._pipeline import DESTINATION, WAIT_S
from canal_group.actors.admission.token_middleware import TokenMiddleware
from canal_group.actors.driver import launch
from canal_group.actors.driver.instance import Instance
from canal_group.actors.gateway.gateway import Gateway, GatewayServer
from canal_group.actors.gateway.wiring import DestinationWiring
from canal_group.actors.shard.shard import ShardActor
from canal_group.actors.transport import row_server
from canal_group.actors.transport.row_server import RowAddress
from canal_group.client.client import connect
from canal_group.client.consumer import Consumer
from canal_group.gateway.gateway_client import ROWS_TIMEOUT_S, GatewayClient

# An actor's process has no benchmarks on its path: what it needs of this module travels with its class.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Way(StrEnum):
    """How rows pass a hop."""

    MEMORY = "shared_memory"
    UNIX = "flight_unix"
    TCP = "flight_tcp"


@dataclass(frozen=True, slots=True)
class Ways:
    """How rows pass both hops."""

    #: from the shards to the gateway
    fetched: Way
    #: from the gateway to the consumer
    sent: Way


@contextmanager
def used(ways: Ways, folder: Path) -> Iterator[None]:
    """Let instances that are launched meanwhile send rows so; `consumer` reads them.

    Args:
        ways: of both hops.
        folder: empty, for sockets; its name is short, as the kernel wants those of sockets to be.
    """
    shard = {Way.MEMORY: ShardActor, Way.TCP: _TcpShard, Way.UNIX: _unix_shard(folder)}[ways.fetched]
    gateway = _unix_gateway(folder) if ways.sent is Way.UNIX else Gateway
    with patch.object(launch, "ShardActor", shard), patch.object(launch, "Gateway", gateway):
        yield


def consumer(running: Instance, way: Way, folder: Path) -> Consumer:
    """Return a consumer of an instance whose gateway sends rows that way."""
    if way is not Way.UNIX:
        shared = way is Way.MEMORY
        return connect(running.uri, destination=DESTINATION, wait_s=WAIT_S, shared_memory=shared)
    reader = Consumer(_UnixClient(running.uri, folder), "1001", "", WAIT_S)
    reader.subscribe()
    return reader


def lends(pid: int) -> bool:
    """Return whether a process lends rows in shared memory: it can write there, and who borrows cannot."""
    mapped = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return any("memfd:canal-group rows" in line and line.split()[1].startswith("rw") for line in mapped)


# ---- from the shards to the gateway ----------------------------------------------------------------------


class _TcpShard(ShardActor):
    """A shard that sends rows by Flight over TCP, also on one machine."""

    def rows_at(self) -> RowAddress:
        return replace(super().rows_at(), shared_memory=None)


def _unix_shard(folder: Path) -> type[ShardActor]:
    class UnixShard(ShardActor):
        """A shard that sends rows by Flight over a Unix socket."""

        _server: Any = None

        def rows_at(self) -> RowAddress:
            # Calls of this come one after the other.
            location = f"grpc+unix://{folder}/{os.getpid()}"
            if self._server is None:
                self._server = row_server._Server(location, self._rows, _SECRET, None)  # noqa: SLF001
                threading.Thread(target=self._server.serve, name="rows", daemon=True).start()
            return RowAddress(location, _SECRET)

    return UnixShard


#: nobody but us reaches a socket in a folder of ours
_SECRET = "secret"


# ---- from the gateway to the consumer --------------------------------------------------------------------


class _UnixServer(flight.FlightServerBase):  # type: ignore[misc]  # pyarrow is untyped
    """Another location of a gateway's Flight server, for rows."""

    def __init__(self, location: str, door: GatewayServer, tokens: TokenMiddleware) -> None:
        self._server = door
        super().__init__(location, middleware=tokens.middleware)

    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.GeneratorStream:
        return self._server.do_get(context, ticket)


def _unix_gateway(folder: Path) -> type[Gateway]:
    class UnixGateway(Gateway):
        """A gateway that sends rows by Flight over a Unix socket as well."""

        _unix: _UnixServer | None = None

        def serve(self, version: int, destinations: Sequence[DestinationWiring]) -> dict[str, str]:
            failed = super().serve(version, destinations)
            if self._unix is None:
                assert self._server is not None, "it serves"
                tokens = TokenMiddleware(self._destinations.grants, self._wiring.bounds.calls_max)
                self._unix = _UnixServer(f"grpc+unix://{folder}/gateway", self._server, tokens)
                threading.Thread(target=self._unix.serve, name="flight", daemon=True).start()
            return failed

    return UnixGateway


class _UnixClient(GatewayClient):
    """A connection to a gateway whose rows come by a Unix socket."""

    def __init__(self, uri: str, folder: Path) -> None:
        super().__init__(uri, DESTINATION, shared_memory=False)
        self._rows = flight.FlightClient(f"grpc+unix://{folder}/gateway")

    def rows(self, **ticket: Any) -> pa.Table:
        flight_ticket = flight.Ticket(json.dumps({"destination": DESTINATION, **ticket}).encode())
        return self._rows.do_get(flight_ticket, flight.FlightCallOptions(timeout=ROWS_TIMEOUT_S)).read_all()

    def close(self) -> None:
        self._rows.close()
        super().close()
