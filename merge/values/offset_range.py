"""An offset range: the transactions between two group positions, in an order that depends on nothing else.

A batch of `get` is a run of the merged log. The log is rebuilt after every recovery, so late transactions and
equal keys may come out of it in another order. An offset range does not depend on the log. The two positions
say, shard by shard, which transactions belong to it, and the binlogs determine their order:

    key   max(commit_us, greatest key of the start position), never smaller than the shard's previous key;
          commit_us is ignored if it is after the greatest key of the end position: it was not believed
    order (key, shard_index, order in the shard's binlog)

In a group ordered by id the key is instead the greatest id that the shard has written since the start
position, all fragments of a transaction counted. Commit times decide nothing then, and no header is LATE.

The same two positions therefore always give the same rows with the same numbers, whichever server reads them.
Keys never decrease from an offset range to the one that follows it. A header is flagged LATE here if it was
committed before the greatest key of the start position; a page of a snapshot is not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from canal_group.merge.errors import DataError, UsageError
from canal_group.merge.values.gtids.gtid import NO_GTIDS
from canal_group.merge.values.header import Flag, Headers, merged, page_rows
from canal_group.merge.values.position import ANY_SERVER, GroupPosition, Position, file_order
from canal_group.merge.values.progress import Progress, gtids_after


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """A request for the rows after `start`, up to and including `until` or as many as the bounds allow."""

    #: a position at which every shard is at a transaction's end; everything before it is consumed
    start: GroupPosition
    #: where the range ends; None: the bounds end the range
    until: GroupPosition | None = None
    #: bounds of an offset range without `until`; it contains at least one transaction
    rows_max: int = 65_536
    bytes_max: int = 8 << 20
    #: rows that the range waits for, if the bounds allow as many
    rows_min: int = 0
    #: greatest key of an offset range without `until`; None: any
    key_us_max: int | None = None
    #: whether an offset range without `until` may have no row, so that its reader's position moves
    may_be_empty: bool = False
    #: the start that was noted with `until`, if nothing is kept between it and `start`; None: it is `start`
    noted: GroupPosition | None = None

    @property
    def noted_start(self) -> GroupPosition:
        """The start as the reader of the range knows it."""
        return self.start if self.noted is None else self.noted

    def check(self) -> None:
        """Return if the positions can be the ends of an offset range.

        Raises:
            UsageError: one of them is inside a transaction.
        """
        for position in (self.start, self.until):
            for shard, at in position.shards.items() if position is not None else ():
                if at.rows_into_transaction:
                    raise UsageError(
                        f"Shard {shard} is positioned inside a transaction, at {at}; offset ranges begin"
                        " and end between transactions.",
                        hint="Pass positions that were acknowledged, or ends of offset ranges.",
                    )


def same_positions(one: GroupPosition, other: GroupPosition) -> bool:
    """Return whether two positions are the same; shards that only one of them names do not count."""
    return one.sequence == other.sequence and all(
        same_position(one.shards[shard], other.shards[shard])
        for shard in one.shards.keys() & other.shards.keys()
    )


def same_position(one: Position, other: Position) -> bool:
    """Return whether two positions of a shard are the same, whatever their snapshots."""
    return (one.file, one.offset, one.rows_into_transaction, one.page_rows) == (
        other.file,
        other.offset,
        other.rows_into_transaction,
        other.page_rows,
    ) and (one.is_of(other.server) and (one.server != ANY_SERVER or one.gtid_set == other.gtid_set))


def reaches_back(base: Mapping[str, Position], start: Mapping[str, Position]) -> bool:
    """Return whether a log that begins at `base` holds what follows `start`, in each shard that both name."""
    return all(_is_at_or_before(base[shard], position) for shard, position in start.items() if shard in base)


def arrange(headers: Headers, start: GroupPosition, until: GroupPosition | None = None) -> Headers:
    """Return an offset range's headers in its order, with its keys and flags; see the module.

    Args:
        headers: (n,) HEADER, each shard's in its own order.
        start: the position that they follow.
        until: where they end, as noted when they were first read; None: this is the first read.
    """
    floor_us = start.passed_us
    arranged = headers.copy()
    commit_us = arranged["commit_us"]
    future = (arranged["flags"] & Flag.FUTURE) != 0
    if until is not None:
        reached_us = until.passed_us
    else:
        reached_us = max(floor_us, int(commit_us[~future].max(initial=0)))
    future = commit_us > reached_us
    flags = arranged["flags"] & ~np.uint16(Flag.LATE | Flag.FUTURE)
    late = (commit_us < floor_us) & (flags & Flag.PAGE == 0)
    flags |= np.where(late, np.uint16(Flag.LATE), np.uint16(0))
    arranged["flags"] = flags | np.where(future, np.uint16(Flag.FUTURE), np.uint16(0))
    arranged["key_us"] = np.where(future, floor_us, np.maximum(commit_us, floor_us))
    for shard in np.unique(arranged["shard"]):
        mine = arranged["shard"] == shard
        arranged["key_us"][mine] = np.maximum.accumulate(arranged["key_us"][mine])
    if (arranged["flags"] & Flag.BY_ID).any():
        return _by_id(arranged)
    return merged(arranged)


def _by_id(headers: Headers) -> Headers:
    """Return an offset range's headers, whole transactions, in the order of their ids."""
    headers["flags"] &= ~np.uint16(Flag.LATE)
    for shard in np.unique(headers["shard"]):
        mine = np.flatnonzero(headers["shard"] == shard)
        begins = np.append(True, (headers["flags"][mine[1:]] & Flag.BEGIN) != 0)
        greatest = np.maximum.reduceat(headers["order_id"][mine], np.flatnonzero(begins))
        headers["order_key"][mine] = np.maximum.accumulate(greatest)[np.cumsum(begins) - 1]
    return merged(headers, "order_key")


def order_of(headers: Headers, names: Sequence[str], shards: Sequence[str]) -> str:
    """Return a digest of the transactions of an offset range in their order; fragments do not change it.

    A server that took over may have other commit times for the same transactions: a replica of MariaDB stamps
    the last statement where its source stamps the COMMIT. Read again, they are then in another order.

    Args:
        headers: (n,) HEADER, in the offset range's order; those without rows do not count.
        names: what their indexes point to.
        shards: names of the shards by shard_index.
    """
    mine = headers[headers["row_end"] > headers["row_begin"]]
    if not len(mine):
        return ""
    by_gtid = mine["gtid_number"] > 0
    columns = (
        _digests(mine["shard"], shards),
        _digests(np.where(by_gtid, mine["gtid_source"], mine["file"]), names),
        np.where(by_gtid, mine["gtid_number"], mine["begin_offset"]).astype(np.int64),
    )
    begins = np.ones(len(mine), dtype=bool)
    begins[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    first = np.flatnonzero(begins)
    rows = np.add.reduceat((mine["row_end"] - mine["row_begin"]).astype(np.int64), first)
    digest = hashlib.blake2b(rows.tobytes(), digest_size=16)
    for column in columns:
        digest.update(column[first].tobytes())
    return digest.hexdigest()


def _digests(indexes: NDArray[np.integer], texts: Sequence[str]) -> NDArray[np.int64]:
    """Return a number for each text that an index points to; the indexes of two servers differ."""
    distinct, inverse = np.unique(indexes, return_inverse=True)
    return np.array([crc32(texts[index].encode()) for index in distinct.tolist()], dtype=np.int64)[inverse]


def whole(headers: Headers, lead: int, count: int) -> int:
    """Return how many of the first headers, about `count`, are whole transactions.

    Transactions in a log are not interleaved, so the end of one is an end for all shards.

    Args:
        headers: (n,) HEADER, in the order of the log.
        lead: number of first headers without rows, which are delivered with the headers that follow them.
        count: how many are wanted.

    Returns:
        More than `lead`, if there are more headers; 0: the transaction after the lead is not complete yet.
    """
    ends = np.flatnonzero(headers["flags"] & Flag.END) + 1
    if lead < len(headers):
        ends = ends[ends > lead]
    before = ends[ends <= count]
    chosen = before[-1:] if len(before) else ends[:1]
    return int(chosen[0]) if len(chosen) else 0


def up_to(
    headers: Headers, names: tuple[str, ...], position: Position, *, same_server: bool
) -> NDArray[np.bool_]:
    """Return which headers of one shard end at or before a position.

    Args:
        headers: (n,) HEADER of one shard.
        names: what their indexes point to.
        position: a position in that shard.
        same_server: whether they come from the position's server. If not, GTIDs decide.
    """
    if not same_server:
        return _held(headers, names, position)
    base, number = file_order(position.file)
    numbers = np.zeros(len(names), dtype=np.int64)
    for index in np.unique(headers["file"]):
        file_base, file_number = file_order(names[index])
        # The server's binlog has another base name: deliver a transaction twice rather than never.
        numbers[index] = file_number if file_base == base else np.iinfo(np.int64).max
    files = numbers[headers["file"]]
    ends, at = headers["end_offset"], position.offset
    before = (ends < at) | ((ends == at) & (page_rows(headers) <= position.page_rows))
    old: NDArray[np.bool_] = (files < number) | ((files == number) & before)
    return old


def without_left(offset_range: OffsetRange, left: Collection[str]) -> GroupPosition:
    """Return the end of an offset range without the shards that left the group.

    Raises:
        UsageError: one of them has rows in the offset range, or may have; these can no longer be read.
    """
    until = offset_range.until
    assert until is not None, "its end was noted"
    gone = until.shards.keys() & set(left)
    for shard in sorted(gone):
        begin, end = offset_range.start.shards.get(shard), until.shards[shard]
        if begin is None or not same_position(begin, end):
            raise UsageError(
                f"Shard {shard} left the group: its rows up to {end} can no longer be read.",
                hint="Start the query again from a position after that.",
                shard=shard,
            )
    return replace(until, shards={name: until.shards[name] for name in until.shards if name not in gone})


def covered(
    until: GroupPosition,
    start: GroupPosition,
    headers: Headers,
    names: tuple[str, ...],
    shards: tuple[str, ...],
    servers: tuple[str, ...],
) -> NDArray[np.bool_] | None:
    """Return which headers are at or before `until`; None if some of them have not arrived yet.

    Args:
        until: the end; a shard that it does not name has no headers in the range.
        start: the position that the headers follow.
        headers: (n,) HEADER, each shard's in its own order.
        names: what their indexes point to.
        shards: names of the shards by shard_index.
        servers: identities of the servers that the headers come from, by shard_index.
    """
    within = np.zeros(len(headers), dtype=bool)
    for index, name in enumerate(shards):
        end, begin = until.shards.get(name), start.shards.get(name)
        if end is None or (begin is not None and _is_past(begin, end)):
            continue
        mine = np.flatnonzero(headers["shard"] == index)
        same_server = end.is_of(servers[index])
        old = up_to(headers[mine], names, end, same_server=same_server)
        if same_server:
            complete = not old.all() or (len(mine) > 0 and _ends_at(headers[mine[-1]], names, end))
        else:
            gtids = begin.gtid_set if begin is not None else NO_GTIDS
            ends = np.flatnonzero(old & ((headers[mine]["flags"] & Flag.END) != 0))
            complete = bool(end.gtid_set) and gtids_after(gtids, headers[mine], ends, names).contains(
                end.gtid_set
            )
        if not complete:
            return None
        within[mine[old]] = True
    return within


def _ends_at(header: np.void, names: tuple[str, ...], position: Position) -> bool:
    return (names[header["file"]], int(header["end_offset"]), int(page_rows(header))) == (
        position.file,
        position.offset,
        position.page_rows,
    )


def check_same(until: GroupPosition, progress: Progress) -> None:
    """Return if an offset range that was read again ends as it did when its end was noted.

    It has as many rows, and the pages after which shards ended: their places are in the end. Other pages at
    these places would be taken for read.

    Raises:
        DataError: it does not.
    """
    ends = progress.end.shards
    lacks = [
        shard
        for shard, at in until.shards.items()
        if at.page_rows and shard in ends and not same_position(at, ends[shard])
    ]
    if progress.end.sequence == until.sequence and not lacks:
        return
    raise DataError(
        f"The offset range that ends at row {until.sequence} of the merged stream ends at row"
        f" {progress.end.sequence} now that it is read again"
        + (f", without the page at the end of shard {lacks[0]}." if lacks else "."),
        hint="The instance's filter or shards have changed since, or it has pages of a snapshot that were"
        " acknowledged and are gone, or that another server's stream has elsewhere. Start again from the"
        " cursor, or from another position.",
        expected=until.sequence,
        found=progress.end.sequence,
    )


def _held(headers: Headers, names: tuple[str, ...], position: Position) -> NDArray[np.bool_]:
    """Return which headers are before the position by their GTIDs; a header without a GTID is not."""
    held = np.zeros(len(headers), dtype=bool)
    for source in np.unique(headers["gtid_source"]):
        its = headers["gtid_source"] == source
        held[its] = position.gtid_set.holds(names[source], headers["gtid_number"][its])
    return held


def _is_past(begin: Position, position: Position) -> bool:
    """Return whether a position is at or before the beginning, by file and offset of one server."""
    if same_position(begin, position):
        return True
    comparable = begin.is_of(position.server) and ANY_SERVER not in (begin.server, position.server)
    return comparable and file_order(begin.file)[0] == file_order(position.file)[0] and position <= begin


def _is_at_or_before(base: Position, position: Position) -> bool:
    return same_position(base, position) or base.within(position)
