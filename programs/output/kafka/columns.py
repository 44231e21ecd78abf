"""Columns: messages as the compiled loop of `batch_producer` takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from canal_group.merge.rows.native.text import Values
from canal_group.programs.output.messages import Messages


class Columns(NamedTuple):
    """The arguments of `BatchProducer.produce` after the first one."""

    topics: Sequence[str]
    topic: NDArray[np.int32]
    partition: NDArray[np.int32]
    values: Values
    keys: Values | None
    headers: Sequence[tuple[str, Values]]


def columns_of(messages: Messages) -> Columns:
    """Return messages as columns, which point into the messages' memory."""
    return Columns(
        messages.topics,
        messages.topic,
        messages.partition,
        _values(messages.value),
        None if messages.key is None else _values(messages.key),
        [(name, _values(texts)) for name, texts in messages.headers.items()],
    )


def _values(texts: Any) -> Values:
    """Return (n,) utf8 or binary."""
    array = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    buffers = array.buffers() if array.null_count else [None, *array.buffers()[1:]]
    return Values("text", len(array), array.offset, buffers)
