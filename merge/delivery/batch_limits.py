"""Bound what a consumer gets at once, and count how many headers fit into a batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from canal_group.merge.errors import DataError
from canal_group.merge.values.header import WHOLE, Flag, Headers
from canal_group.merge.values.offset_range import OffsetRange, whole


def cut(
    headers: Headers,
    *,
    rows_max: int,
    bytes_max: int,
    ddl_isolation: bool = False,
) -> int:
    """Return how many of the first headers leave together: at least one where there is one.

    A header is never split, so the first one leaves even if it alone is above a bound.

    Args:
        headers: candidates in order.
        rows_max: bound on the sum of `rows`.
        bytes_max: bound on the sum of `bytes`.
        ddl_isolation: let a DDL leave alone, and what stands before it without it.
    """
    count = int(np.searchsorted(np.cumsum(headers["rows"]), rows_max, side="right"))
    count = min(count, int(np.searchsorted(np.cumsum(headers["bytes"][:count]), bytes_max, side="right")))
    count = min(max(count, 1), len(headers))
    if ddl_isolation:
        ddls = np.flatnonzero(headers["flags"][:count] & Flag.DDL)
        if len(ddls):
            count = max(int(ddls[0]), 1)
    return count


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Bounds of a batch and of the batches of one subscriber."""

    #: row changes; a consumer may ask for fewer
    rows_max: int
    #: bytes of rows in the rings
    bytes_max: int
    #: batches delivered and not acknowledged
    outstanding_max: int
    #: deliver each DDL in a batch of its own
    ddl_isolation: bool
    #: headers without rows that are collected before they are delivered as an empty batch. At most the slots
    #: of a ring: a ring full of such headers would wait for its consumer while the consumer waits for rows.
    empty_headers_max: int
    #: most headers and bytes that the ring of a shard holds; a transaction of an offset range has to fit
    ring_headers_max: int | None = None
    ring_bytes_max: int | None = None

    def count_batch(self, headers: Headers, rows_max: int) -> int:
        """Return how many of the first headers make a batch; at least one if there is one.

        Headers without rows are delivered together with the headers that follow them.

        Args:
            headers: (n,) HEADER, in merged order.
            rows_max: row changes that the consumer asks for.
        """
        lead = _lead(headers)
        return lead + cut(
            headers[lead:],
            rows_max=min(rows_max, self.rows_max),
            bytes_max=self.bytes_max,
            ddl_isolation=self.ddl_isolation,
        )

    def count_range(self, headers: Headers, offset_range: OffsetRange) -> int:
        """Return how many of the first headers make an offset range without a given end; 0: it has to wait.

        Args:
            headers: (n,) HEADER, in merged order.
            offset_range: the range that is requested.

        Raises:
            DataError: the first transaction is larger than its shard's ring.
        """
        if offset_range.key_us_max is not None:
            headers = headers[
                : int(np.searchsorted(headers["key_us"], offset_range.key_us_max, side="right"))
            ]
        if not len(headers):
            return 0
        lead = _lead(headers)
        count = lead + cut(headers[lead:], rows_max=offset_range.rows_max, bytes_max=offset_range.bytes_max)
        count = whole(headers, lead, count)
        if not count:
            self._check_fits(headers[lead:])
            # The transaction after them may need their room in the ring.
            count = whole(headers[:lead], lead, lead)
        enough = count < len(headers) or int(headers["rows"].sum()) >= offset_range.rows_min
        return count if enough else 0

    def may_wait(self, headers: Headers) -> bool:
        """Return whether the delivery of these headers may wait for more headers."""
        return len(headers) < self.empty_headers_max and not _matter(headers)

    def _check_fits(self, fragments: Headers) -> None:
        """Return if the ring of a shard has room for more of a transaction that has not ended.

        Raises:
            DataError: the transaction is larger than the ring. The ring is not freed before an offset range
                contains the whole transaction.
        """
        most = self._full(fragments)
        if most:
            raise DataError(
                f"A transaction is larger than the ring of its shard, {most}: no offset range can contain"
                " all of it.",
                hint="Raise store.size in the instance file, then restart the instance.",
                offset=int(fragments["begin_offset"][0]),
            )

    def check_brings(self, shard: str, headers: Headers) -> None:
        """Return if a shard can bring the rest of an offset range while the range waits for it.

        Args:
            shard: its name.
            headers: the shard's headers that only the reader of the offset range keeps in the ring.

        Raises:
            DataError: these headers fill the ring, which is not freed before the offset range is read.
        """
        most = self._full(headers)
        if most:
            raise DataError(
                f"The ring of shard {shard}, {most}, is full before all of the offset range has arrived: the"
                " shard cannot bring the rest.",
                hint="Raise store.size in the instance file, then restart the instance; or start the query"
                " again.",
                shard=shard,
            )

    def _full(self, headers: Headers) -> str:
        """Return the bound of a shard's ring that its headers reach, as text; empty if they reach none."""
        for held, most, unit in (
            (len(headers), self.ring_headers_max, "headers"),
            (int(headers["bytes"].sum()), self.ring_bytes_max, "bytes"),
        ):
            if most is not None and held >= most:
                return f"{most} {unit}"
        return ""


def _lead(headers: Headers) -> int:
    """Return how many headers without rows come first."""
    with_rows = np.flatnonzero(headers["rows"])
    return int(with_rows[0]) if len(with_rows) else len(headers)


def _matter(headers: Headers) -> bool:
    """Return whether headers have to be delivered now: they have rows, or end a transaction that had some.

    If the last fragment of a transaction is empty, the cursor moves past the transaction only with it.
    """
    ends_earlier = (headers["flags"] & WHOLE) == Flag.END
    return bool(((headers["rows"] > 0) | ends_earlier).any())
