"""A relay's metrics: a listener of its own, which answers `/metrics`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from canal_group.actors.http.listener import Listener, listening
from canal_group.actors.http.metrics.exposition import exposed
from canal_group.actors.http.metrics.relays import RelayFamilies
from canal_group.conf.relay.relay_settings import MetricsSettings, RelaySettings
from canal_group.merge.errors import ConfigError
from canal_group.programs.output.counters import Counters


@contextmanager
def answered(settings: RelaySettings, metrics: MetricsSettings, counters: Counters) -> Iterator[str]:
    """Answer while the context is entered; its value is the address.

    Raises:
        ConfigError: it cannot listen there.
    """
    try:
        bound = listening(metrics.host, metrics.port)
    except OSError as error:
        raise ConfigError(
            f"The relay's metrics cannot listen on {metrics.host}:{metrics.port}: {error.strerror}.",
            hint="Stop what listens there, or set another metrics.port.",
        ) from error
    of = (settings.destination, settings.read.client_id, str(settings.output.kind))

    async def metrics_of(request: Request) -> Response:
        return exposed(request, RelayFamilies(of, counters.describe()))

    listener = Listener(Starlette(routes=[Route("/metrics", metrics_of)]), bound, metrics.host)
    try:
        yield f"{listener.url}/metrics"
    finally:
        listener.close()
