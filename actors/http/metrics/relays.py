"""Relays: the counters of a publisher as Prometheus's families. `docs/metrics.md` explains each one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from canal_group.actors.http.metrics.families import Families

_RELAY = ("destination", "client_id", "output")


class RelayFamilies(Families):
    """The families of one relay.

    Args:
        of: its destination, its client id and the kind of its output.
        state: what a relay has counted, as its `describe` returns it.
    """

    def __init__(self, of: tuple[str, str, str], state: Mapping[str, Any]) -> None:
        super().__init__(_RELAY)
        self._gauge(
            "relay_publishing",
            "Whether it is the active consumer and its output is open; else it stands by, or tries again.",
            state["publishing"],
            of,
        )
        self._count("relay_published_messages", "Messages that were confirmed.", state["messages"], of)
        self._count("relay_published_bytes", "Bytes of their values and keys.", state["bytes"], of)
        self._count("relay_confirmed_batches", "Batches that were confirmed.", state["batches"], of)
        self._count(
            "relay_rollbacks", "Times that it was told to read batches again.", state["rollbacks"], of
        )
        for error, times in state["errors"].items():
            what = "Failures after which it tried again, by error; those of the output are SinkUnavailable."
            self._count("relay_errors", what, times, (*of, error), (*_RELAY, "error"))
        self._time("relay_confirmed", "When a batch was confirmed last.", state["confirmed_us"], of)
        self._time(
            "relay_position",
            "Commit time of the last transaction that was confirmed.",
            state["position_us"],
            of,
        )
        self._gauge(
            "relay_lag_seconds",
            "Time from the commit of that transaction to its confirmation.",
            state["lag_s"],
            of,
        )
