"""Families: metrics by name, each with its help and its values; a collector of prometheus_client."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

#: what every name begins with
PREFIX = "canal_group"


class Families:
    """What is added becomes part of the family of its name.

    Args:
        labels: names of the labels of a value for which none are said.
    """

    def __init__(self, labels: Sequence[str]) -> None:
        self._labels = labels
        self._families: dict[str, Any] = {}

    def collect(self) -> Iterator[Metric]:
        """Yield each family; prometheus_client calls this."""
        yield from self._families.values()

    def _gauge(
        self, name: str, what: str, value: float | None, of: Sequence[str], labels: Sequence[str] = ()
    ) -> None:
        """Add a gauge; None: there is no value now."""
        if value is not None:
            self._family(GaugeMetricFamily, name, what, labels).add_metric(of, float(value))

    def _time(
        self, name: str, what: str, time_us: int | None, of: Sequence[str], labels: Sequence[str] = ()
    ) -> None:
        """Add a time in microseconds since 1970 UTC as a gauge in seconds; None: it is not known."""
        if time_us is not None:
            self._gauge(f"{name}_timestamp_seconds", what, time_us / 1e6, of, labels)

    def _count(
        self, name: str, what: str, value: float, of: Sequence[str], labels: Sequence[str] = ()
    ) -> None:
        self._family(CounterMetricFamily, name, what, labels).add_metric(of, value)

    def _family(self, kind: Any, name: str, what: str, labels: Sequence[str]) -> Any:
        full = f"{PREFIX}_{name}"
        if full not in self._families:
            self._families[full] = kind(full, what, labels=labels or self._labels)
        return self._families[full]
