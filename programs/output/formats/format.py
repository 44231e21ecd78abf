"""The port to a format, and what formats share: a message for each change, or for each run of a partition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from canal_group.client.batch import Batch
from canal_group.programs.output.headers import headers_of
from canal_group.programs.output.messages import Messages
from canal_group.programs.output.routing.router import Routes

#: changes in one message of a format that puts several into one
GROUP_ROWS_MAX = 1_000


class Make(Protocol):
    """Makes messages of changes."""

    def __call__(self, rows: pa.Table, routes: Routes) -> Messages:
        """Return the messages of n changes, in their order.

        Args:
            rows: (n,) what the format's `read` returned, with tidy maps in one chunk.
            routes: where they go.
        """


def read_envelope(batch: Batch) -> pa.Table:
    """Return a batch's changes: (n,) Table of `canal_group.merge.rows.envelope.ENVELOPE` and `definition`."""
    return batch.envelope(definitions=True)


@dataclass(frozen=True, slots=True)
class Format:
    """A format."""

    make: Make
    #: what it reads of a batch: at least what `read_envelope` returns
    read: Callable[[Batch], pa.Table] = read_envelope


def one_each(rows: pa.Table, routes: Routes, values: Any, keys: Any = None) -> Messages:
    """Return a message for each change.

    Args:
        rows: the changes.
        routes: where they go.
        values: (n,) utf8 or binary.
        keys: (n,) utf8; None: no keys.
    """
    headers = headers_of(rows, routes)
    return Messages(routes.topics, routes.topic, routes.partition, values, headers, keys)


def filtered(rows: pa.Table, routes: Routes, keep: Any) -> tuple[pa.Table, Routes]:
    """Return the changes that a format has messages of.

    Args:
        rows: (n,) the changes.
        routes: where they go.
        keep: (n,) bool.
    """
    indexes = np.flatnonzero(keep.to_numpy(zero_copy_only=False))
    if len(indexes) == len(rows):
        return rows, routes
    return rows.take(pa.array(indexes)).combine_chunks(), routes.take(indexes)


def grouped(rows: pa.Table, routes: Routes, encode: Callable[[pa.Table], bytes]) -> Messages:
    """Return a message for each run of at most `GROUP_ROWS_MAX` changes of a topic's partition.

    Messages are in the order of their first changes.

    Args:
        rows: the changes.
        routes: where they go.
        encode: makes a value of changes of one partition.
    """
    groups = sorted(_groups(routes), key=lambda indexes: int(indexes[0]))
    first = np.array([indexes[0] for indexes in groups], np.int64)
    headers = {name: texts.take(pa.array(first)) for name, texts in headers_of(rows, routes).items()}
    headers["rows"] = pa.array([str(len(indexes)) for indexes in groups], pa.utf8())
    values = pa.array([encode(rows.take(pa.array(indexes))) for indexes in groups], pa.binary())
    return Messages(routes.topics, routes.topic[first], routes.partition[first], values, headers)


def _groups(routes: Routes) -> list[Any]:
    targets = routes.topic.astype(np.int64) << 32 | routes.partition
    order = np.argsort(targets, kind="stable")
    bounds = np.flatnonzero(np.diff(targets[order])) + 1
    return [
        run[begin : begin + GROUP_ROWS_MAX]
        for run in np.split(order, bounds)
        for begin in range(0, len(run), GROUP_ROWS_MAX)
    ]
