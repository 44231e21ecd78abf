"""Last transaction: what tells the transaction before a position from another one under the same number.

A server that was reset, or that lost the end of its binlog, gives numbers again; so does one that has taken
the server id of another. A transaction keeps its commit time wherever it is replicated to.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from canal_group.merge.values.header import gtid_text


@dataclass(frozen=True, slots=True)
class LastTransaction:
    """The last transaction that was read before a position: its number, its time, and where it was read."""

    #: GTID as the source writes it: 0-1-42, or uuid:42; empty: no GTID
    gtid: str
    #: commit time as it was read, microseconds since 1970 UTC
    commit_us: int
    #: identity of the server that it was read from; empty: not known
    server: str
    #: binlog file of that server
    file: str
    #: where it begins there
    begin_offset: int

    @classmethod
    def of(cls, header: np.void, names: tuple[str, ...], server: str) -> LastTransaction:
        """Return the transaction of a header.

        Args:
            header: one of HEADER.
            names: what its indexes point to.
            server: identity of the server that it was read from; empty: not known.
        """
        return cls(
            gtid=gtid_text(names[header["gtid_source"]], int(header["gtid_number"])),
            commit_us=int(header["commit_us"]),
            server=server,
            file=names[header["file"]],
            begin_offset=int(header["begin_offset"]),
        )
