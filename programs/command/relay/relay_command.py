"""`canal-group relay`: publish a destination to a message queue or a file until a signal stops it."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from canal_group.actors.process.log import LogFormat, LogLevel
from canal_group.programs.command.options import log_options
from canal_group.programs.stop_signal import StopSignal

if TYPE_CHECKING:
    from canal_group.programs.output.publisher import Publisher

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


_log = logging.getLogger(__name__)


def relay(
    config: Annotated[Path, typer.Option("--config", "-c", help="The file of its settings, relay.yaml.")],
    log_format: log_options.Format = LogFormat.TEXT,
    log_level: log_options.Level = LogLevel.INFO,
) -> None:
    """Publish a destination's changes to Kafka, RabbitMQ or a file until SIGTERM or Ctrl-C.

    A batch is acknowledged when the output has confirmed it. A signal ends the relay after the batch that is
    being published.
    """
    from canal_group.conf.relay.relay_settings import load_relay
    from canal_group.malloc_tuning import tune_malloc
    from canal_group.programs.output.kinds import settings_of
    from canal_group.programs.output.publisher import Publisher

    tune_malloc()
    with log_options.logged(log_format, log_level):
        stop = StopSignal()
        publisher = Publisher(load_relay(config, settings_of), stop)
        signal.signal(signal.SIGTERM, lambda *_: stop.set())
        signal.signal(signal.SIGINT, lambda *_: stop.set())
        with _measured(publisher):
            publisher.run()
        _log.info("stopped; %d messages published", publisher.published)


@contextmanager
def _measured(publisher: Publisher) -> Iterator[None]:
    """Answer `/metrics` if the settings say where."""
    settings = publisher.settings
    if settings.metrics is None:
        yield
        return
    from canal_group.programs.command.relay.relay_command import answered

    with answered(settings, settings.metrics, publisher.counters) as url:
        _log.info("metrics at %s", url)
        yield
