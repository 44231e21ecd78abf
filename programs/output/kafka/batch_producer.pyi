"""The interface of `batch_producer.pyx`."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canal_group.merge.rows.native.text import Values

class BatchProducer:
    """A producer of confluent_kafka that also takes a batch of messages at once.

    Args:
        library_path: confluent_kafka's compiled module, which has loaded librdkafka.
        make: makes the producer; of the option `plugin.library.paths` it is given what has to be part of it.

    Raises:
        OSError: this librdkafka lacks a function, or takes no plugins.
    """

    #: confluent_kafka's
    producer: Any

    def __init__(self, library_path: str, make: Callable[[str], Any]) -> None: ...
    def produce(
        self,
        first: int,
        topics: Sequence[str],
        topic: NDArray[np.int32],
        partition: NDArray[np.int32],
        values: Values,
        keys: Values | None,
        headers: Sequence[tuple[str, Values]],
    ) -> tuple[int, int, str, bool]:
        """Hand over messages, from the one with index `first` on, until one is refused.

        What they point to is copied. A null value, key or header is one that the message does not have.

        Args:
            first: 0, or what the call before this one returned.
            topics: names.
            topic: (n,) index into `topics`.
            partition: (n,)
            values: of kind `text`, as keys and headers.
            keys: of n messages; None: they have none.
            headers: name and values.

        Returns:
            The index of the first message that was not taken, n if all were; librdkafka's code why, 0 if all
            were; its words; whether the producer is of no use any more.

        Raises:
            ValueError: what is given does not fit together.
        """
    def undelivered(self) -> tuple[int, str] | None:
        """Return librdkafka's code and the topic of the first message that was not delivered; None: none."""
