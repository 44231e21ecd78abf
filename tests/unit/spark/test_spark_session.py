"""The driver's session: what it acknowledges when an acknowledgement fails."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from canal_group.merge.errors import ServerUnavailable
from canal_group.merge.values.position import GroupPosition, Position
from canal_group.spark.session import Session


def at(row: int) -> GroupPosition:
    return GroupPosition({"s1": Position("bin.000001", 4 + row)}, row)


class FakeConsumer:
    """Has an offset range for each row; `failures` of the next acknowledgements are raised."""

    def __init__(self) -> None:
        self.failures: list[Exception] = []
        self.acknowledged: list[int] = []
        self.epoch = 1

    def offset_range(self, start: GroupPosition, _until: Any = None, **_: Any) -> Any:
        return SimpleNamespace(batch_id=start.sequence, start=start, end=at(start.sequence + 1))

    def ack(self, batch_id: int) -> None:
        if self.failures:
            raise self.failures.pop()
        self.acknowledged.append(batch_id)

    def pause(self, _seconds: float) -> bool:
        return False


def test_a_range_with_a_failed_ack_is_acked_with_the_next_request():
    options: Any = SimpleNamespace(retry_s=0.0, min_rows_per_batch=1, max_delay_s=0.0, quiet_s=60.0)
    session, consumer = Session(options), FakeConsumer()
    session._consumer = consumer  # type: ignore[assignment]
    assert session.next(at(0), 1, 1) == at(1)
    assert session.next(at(1), 1, 1) == at(2)
    consumer.failures = [ServerUnavailable("no answer")]
    with pytest.raises(ServerUnavailable):
        session.next(at(2), 1, 1)
    assert session.next(at(2), 1, 1) == at(3)
    assert session.next(at(3), 1, 1) == at(4)
    assert consumer.acknowledged == [0, 1, 2]
