"""Exposition: families in the format that a scraper asks for."""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.requests import Request
from starlette.responses import Response

from canal_group.actors.http.metrics.families import Families


def exposed(request: Request, families: Families) -> Response:
    """Return the answer to a scrape."""
    registry = CollectorRegistry()
    registry.register(families)
    encode, content_type = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(registry), media_type=content_type)
