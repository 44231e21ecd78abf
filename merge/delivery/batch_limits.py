"""The bounds of what a consumer gets at once, and how many headers leave together within them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from merge.errors import DataError
from merge.values.cut import cut
from merge.values.header import WHOLE, Flag, Headers
from merge.values.offset_range import OffsetRange, whole


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Bounds of a batch and of the batches of one subscriber."""

    #: row changes; a consumer may ask for fewer
    rows_max: int = 131_072
    #: bytes of rows in the rings
    bytes_max: int = 16 << 20
    #: batches delivered and not acknowledged
    outstanding_max: int = 64
    #: let a DDL leave alone
    ddl_isolation: bool = False
    #: headers without rows that are gathered before they are delivered as an empty batch. At most the slots
    #: of a ring: one that is full of such headers would wait for its consumer, and the consumer for it.
    empty_headers_max: int = 1_024
    #: what the ring of a shard holds at most, headers and bytes: a transaction of an offset range has to fit
    ring_headers_max: int | None = None
    ring_bytes_max: int | None = None

    def count_batch(self, headers: Headers, rows_max: int) -> int:
        """Return how many of the first headers make a batch: at least one where there is one.

        Headers without rows leave with what follows them; alone they would have to wait for it.

        Args:
            headers: (n,) HEADER, in merged order.
            rows_max: what the consumer asks for.
        """
        lead = _lead(headers)
        return lead + cut(
            headers[lead:],
            rows_max=min(rows_max, self.rows_max),
            bytes_max=self.bytes_max,
            ddl_isolation=self.ddl_isolation,
        )

    def count_range(self, headers: Headers, offset_range: OffsetRange) -> int:
        """Return how many of the first headers make a range whose end is not given; 0: it has to wait.

        Args:
            headers: (n,) HEADER, in merged order.
            offset_range: what is asked for.

        Raises:
            DataError: the first transaction cannot become whole.
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
        enough = count < len(headers) or int(headers["rows"].sum()) >= offset_range.rows_min
        return count if enough else 0

    def may_wait(self, headers: Headers) -> bool:
        """Return whether nobody needs these headers before more of them come."""
        return len(headers) < self.empty_headers_max and not _matter(headers)

    def _check_fits(self, fragments: Headers) -> None:
        """Return if more of a transaction that has not ended can come into its shard's ring.

        Raises:
            DataError: it is larger than the ring, which nothing frees before an offset range has all of it.
        """
        most = self._full(fragments)
        if most:
            raise DataError(
                f"A transaction is larger than the ring of its shard, {most}: no offset range can have it"
                f" whole.",
                hint="Raise store.size of the instance, and restart it.",
                offset=int(fragments["begin_offset"][0]),
            )

    def check_brings(self, shard: str, headers: Headers) -> None:
        """Return if a shard, which holds back the rest of a range, can bring more while the range waits.

        Args:
            shard: its name.
            headers: what it brought that only the reader of the offset range keeps in the ring.

        Raises:
            DataError: its ring is full of them, and is not freed before the offset range is read.
        """
        most = self._full(headers)
        if most:
            raise DataError(
                f"The ring of shard {shard}, {most}, is full before all of the offset range is there: no row"
                f" of the"
                " offset range comes any more.",
                hint="Raise store.size of the instance, and restart it; or begin the query anew.",
                shard=shard,
            )

    def _full(self, headers: Headers) -> str:
        """Return which bound of a shard's ring its headers fill, in words; empty: none."""
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

    The cursor passes a transaction whose last fragment is empty only with that fragment.
    """
    ends_earlier = (headers["flags"] & WHOLE) == Flag.END
    return bool(((headers["rows"] > 0) | ends_earlier).any())
