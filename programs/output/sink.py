"""The port to an output: what a queue, a file or another target of messages has to do.

A publisher calls, for each batch: `write`, `flush`, `confirm`; and `confirm` before the first batch, if the
output keeps the position and has none. After an error it calls `close` and `open` and goes on after the
position that `open` returns. A new output is one module in `programs/output/sinks/`, or behind an entry point
of the group `canal_group.outputs`, which defines `SETTINGS`, its settings, and `SINK`, its class. Its tests
inherit `canal_group.programs.conformance.sink`.

Two kinds of outputs:

- One that keeps the position stores it together with the messages: all of a batch and its position are
  there, or nothing is. So its readers see each change once.
- Another one receives messages at least once, in order; after a failure it receives those of the last batches
  again, which headers identify (`canal_group.programs.output.formats`).
"""

from __future__ import annotations

from typing import Any, Protocol

from canal_group.merge.values.position import GroupPosition
from canal_group.programs.output.messages import Messages


class Sink(Protocol):
    """A target of messages, used by one thread.

    Every method raises SinkUnavailable (wait and open again), SinkRefused (an operator must act; its `topic`
    is that of the message, if it is about one) or FencedError (another publisher of the same name was opened
    since). What another attempt would meet again, such as a message that cannot be encoded, is refused.
    """

    @property
    def keeps_position(self) -> bool:
        """Whether it keeps the position together with the messages; the same for all of its class."""

    def __init__(self, settings: Any, name: str) -> None:
        """Make a sink that is not open.

        Args:
            settings: an instance of its module's `SETTINGS`.
            name: of the publisher: its destination and client id. Positions are kept by it.
        """

    def open(self) -> GroupPosition | None:
        """Connect, end what a predecessor of the same name left unfinished, and refuse it from now on.

        Returns:
            The position of the last batch that was confirmed; None if there is none, or it keeps none.
        """

    def write(self, messages: Messages) -> None:
        """Send messages; wait while as many as the sink's bound are on their way.

        Of an output that keeps the position no reader sees them before `confirm`.
        """

    def flush(self) -> None:
        """Return when the output has all messages that were written."""

    def confirm(self, position: GroupPosition) -> None:
        """Return when all that was written since the last `confirm` lasts, with the position after it."""

    def close(self) -> None:
        """Disconnect and drop what was not confirmed; never raises. Another `open` may follow."""
