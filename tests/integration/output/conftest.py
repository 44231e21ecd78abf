"""Brokers that all tests of outputs share, and publishers of a test's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from integration.output.running_broker import running

from benchmarks._kafka_broker import KafkaBroker
from benchmarks._rabbit_broker import RabbitBroker


@pytest.fixture(scope="session")
def one_kafka() -> Iterator[KafkaBroker]:
    yield from running(KafkaBroker())


@pytest.fixture(scope="session")
def one_rabbit() -> Iterator[RabbitBroker]:
    yield from running(RabbitBroker())


@pytest.fixture
def kafka(one_kafka: KafkaBroker) -> KafkaBroker:
    """A Kafka that tests share; who kills it need not start it again."""
    one_kafka.start()
    return one_kafka


@pytest.fixture
def rabbit(one_rabbit: RabbitBroker) -> RabbitBroker:
    """A RabbitMQ that tests share; who kills it need not start it again."""
    one_rabbit.start()
    return one_rabbit
