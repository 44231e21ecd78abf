"""A broker that runs as long as a fixture lives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import pytest

from benchmarks._brokers import Broker, BrokerMissingError

Kind = TypeVar("Kind", bound=Broker)


def running(broker: Kind) -> Iterator[Kind]:
    """Start a broker, yield it and stop it; skip the test where its programs are missing."""
    try:
        broker.start()
    except BrokerMissingError as error:
        pytest.skip(str(error))
    yield broker
    broker.stop()
