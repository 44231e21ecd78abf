"""What every sink has to do; a new output, also of a plug-in, runs these tests by a class of its own.

class TestMine(SinkConformance):
    @pytest.fixture
    def target(self, ...) -> Target: ...
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pytest

from canal_group.merge.errors import FencedError, SinkRefused, SinkUnavailable
from canal_group.merge.values.position import GroupPosition
from canal_group.programs.output.messages import Messages
from canal_group.programs.output.sink import Sink


class Target(ABC):
    """An output with a target of the test's own."""

    #: a topic that takes messages on partitions 0 and 1
    topic: str

    @abstractmethod
    def sink(self, name: str = "shop/1001") -> Sink:
        """Return a new sink of a publisher's name, not open."""

    @abstractmethod
    def held(self) -> Sequence[tuple[int, str, dict[str, str]]]:
        """Return a reader's messages: partition, value and headers, in the order of each partition."""

    def fail(self) -> None:
        """Let the output stop answering as if it crashed; without loss of what was confirmed."""
        pytest.skip("this output has no process of its own")

    def recover(self) -> None:
        """Let it answer again."""
        raise NotImplementedError


def messages(topic: str, numbers: Sequence[int]) -> Messages:
    """Return messages of two partitions, whose values and headers hold these numbers."""
    texts = pa.array([str(number) for number in numbers], pa.utf8())
    return Messages(
        (topic,),
        np.zeros(len(numbers), np.int32),
        np.array([number % 2 for number in numbers], np.int32),
        pa.array([f'{{"n":{number}}}' for number in numbers], pa.utf8()),
        {
            "seq": texts,
            "shard": pa.repeat("s0", len(numbers)),
            "position": pa.array([f"mysql-bin.000001:4:{number}" for number in numbers], pa.utf8()),
            "moved_from": pa.array([str(n) if n % 3 == 0 else None for n in numbers], pa.utf8()),
        },
    )


def after(number: int) -> GroupPosition:
    """Return the position after so many messages."""
    return GroupPosition(sequence=number)


def publish(sink: Sink, topic: str, numbers: range) -> None:
    """Write a batch, and confirm it."""
    sink.write(messages(topic, numbers))
    sink.flush()
    sink.confirm(after(numbers.stop))


class SinkConformance:
    """The tests; `target` is the subclass's fixture."""

    @pytest.fixture
    def sink(self, target: Target) -> Iterator[Sink]:
        """Return a sink that is closed after the test."""
        sink = target.sink()
        yield sink
        sink.close()

    def test_a_new_output_has_no_position(self, sink: Sink) -> None:
        assert sink.open() is None

    def test_what_is_confirmed_is_there_in_order_with_its_headers(self, target: Target, sink: Sink) -> None:
        sink.open()
        publish(sink, target.topic, range(5))
        publish(sink, target.topic, range(5, 3_000))
        held = target.held()
        for partition in (0, 1):
            values = [value for found, value, _ in held if found == partition]
            assert values == [f'{{"n":{n}}}' for n in range(3_000) if n % 2 == partition]
        for _, value, headers in held:
            number = value.removeprefix('{"n":').removesuffix("}")
            assert headers["seq"] == number
            assert headers["position"] == f"mysql-bin.000001:4:{number}"
            assert headers.get("moved_from") == (number if int(number) % 3 == 0 else None)

    def test_an_empty_batch_moves_the_position(self, target: Target, sink: Sink) -> None:
        sink.open()
        sink.confirm(after(1))
        sink.close()
        assert sink.open() == (after(1) if sink.keeps_position else None)
        publish(sink, target.topic, range(3, 3))
        sink.close()
        assert sink.open() == (after(3) if sink.keeps_position else None)
        assert not target.held()

    def test_the_position_is_that_of_the_last_confirmation(self, target: Target, sink: Sink) -> None:
        sink.open()
        for number in range(0, 40, 2):
            publish(sink, target.topic, range(number, number + 2))
        sink.close()
        assert sink.open() == (after(40) if sink.keeps_position else None)
        assert len(target.held()) == 40

    def test_names_have_positions_of_their_own(self, target: Target, sink: Sink) -> None:
        if not sink.keeps_position:
            pytest.skip("it keeps no position")
        sink.open()
        publish(sink, target.topic, range(4))
        sink.close()
        other = target.sink("shop/1002")
        try:
            assert other.open() is None
        except SinkRefused:
            pass  # An output of one publisher says so.
        finally:
            other.close()

    def test_what_is_not_confirmed_is_not_there_if_the_position_is_kept(
        self, target: Target, sink: Sink
    ) -> None:
        sink.open()
        publish(sink, target.topic, range(2))
        sink.write(messages(target.topic, range(2, 6)))
        sink.flush()
        sink.close()
        position = sink.open()
        publish(sink, target.topic, range(2, 4))
        numbers = [headers["seq"] for _, _, headers in target.held()]
        if sink.keeps_position:
            assert position == after(2)
            assert sorted(numbers) == ["0", "1", "2", "3"]
        else:
            assert {"0", "1", "2", "3"} <= set(numbers)

    def test_a_predecessor_that_comes_back_confirms_nothing(self, target: Target, sink: Sink) -> None:
        if not sink.keeps_position:
            pytest.skip("its consumers drop what comes twice")
        sink.open()
        publish(sink, target.topic, range(2))
        sink.write(messages(target.topic, range(2, 4)))
        successor = target.sink()
        try:
            assert successor.open() == after(2)
        except FencedError:
            successor.close()  # An output that is locked refuses the successor instead.
            return
        with pytest.raises(FencedError):
            publish(sink, target.topic, range(4, 6))
        publish(successor, target.topic, range(2, 3))
        successor.close()
        assert sorted(headers["seq"] for _, _, headers in target.held()) == ["0", "1", "2"]

    def test_closing_twice_or_before_opening_does_nothing(self, sink: Sink) -> None:
        sink.close()
        sink.open()
        sink.close()
        sink.close()

    def test_an_unreachable_output_is_unavailable_and_returns_with_its_data(
        self, target: Target, sink: Sink
    ) -> None:
        sink.open()
        publish(sink, target.topic, range(2))
        target.fail()
        with pytest.raises(SinkUnavailable):
            publish(sink, target.topic, range(2, 4))
        sink.close()
        with pytest.raises(SinkUnavailable):
            sink.open()
        sink.close()
        target.recover()
        assert sink.open() == (after(2) if sink.keeps_position else None)
        publish(sink, target.topic, range(2, 4))
        numbers = [headers["seq"] for _, _, headers in target.held()]
        assert sorted(set(numbers)) == ["0", "1", "2", "3"]
        assert not sink.keeps_position or len(numbers) == 4
