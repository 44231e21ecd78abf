"""GTID sets: which transactions of a source have been read, for MySQL and for MariaDB.

MySQL numbers transactions per source (a server's uuid, from 8.3 on with an optional tag) and tracks
intervals: `uuid:1-3:8,uuid2:1-9:tag:5-7`. MariaDB keeps one `domain-server-sequence` per domain:
`0-1-100,1-2-5`.

Rules of this file:

- sets are immutable, hashable and canonical: equal sets are equal values and equal text;
- the empty set is `NO_GTIDS` for both flavours, and no other set is empty;
- one set never mixes the two flavours;
- numbers are positive; 0 means "no GTID", as in a header, and is ignored.

Formats: MySQL's manual, "GTID Format and Storage"; MariaDB's knowledge base, "Global Transaction ID".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from canal_group.merge.errors import UsageError
from canal_group.merge.values.gtids.intervals import (
    Interval,
    among,
    common,
    covers,
    interval_text,
    joined,
    with_numbers,
)
from canal_group.merge.whole import shown

Numbers: TypeAlias = NDArray[np.int64] | Sequence[int]
#: (uuid, tag), both lower case; the tag may be empty
Source: TypeAlias = tuple[str, str]
GtidSet: TypeAlias = "MySqlGtidSet | MariaDbGtidSet | NoGtids"

#: the largest number MySQL hands out; MariaDB's own end is beyond any int64
NUMBER_MAX = 2**63 - 2
#: the greatest domain and server id of MariaDB
_ID_MAX = 2**32 - 1
#: characters of a set's text: as many as the largest sets of servers with gaps have, many times over
SET_TEXT_MAX = 4 << 20

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TAG = re.compile(r"[a-z_][a-z0-9_]{0,31}")
_INTERVAL = re.compile(r"([0-9]{1,19})(?:-([0-9]{1,19}))?")
_MARIADB = re.compile(r"([0-9]{1,10})-([0-9]{1,10})-([0-9]{1,20})")
_MARIADB_SOURCE = re.compile(r"([0-9]{1,10})-([0-9]{1,10})")
_EXPECTED = "Expected MySQL's uuid:1-3:8 or uuid:tag:5-7, or MariaDB's 0-1-100, separated by commas."


@dataclass(frozen=True, slots=True)
class NoGtids:
    """The empty set: a source without GTIDs, or before its first one."""

    def __str__(self) -> str:
        return ""

    def __bool__(self) -> bool:
        return False

    def contains(self, other: GtidSet) -> bool:
        """Return whether every transaction of `other` is in this set: only if `other` is empty."""
        return not other

    def holds(self, _source: str, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return False for each transaction, (n,): the set is empty."""
        return np.zeros(len(numbers), dtype=np.bool_)

    def union(self, other: GtidSet) -> GtidSet:
        """Return the transactions of both sets: `other`."""
        return other

    def intersection(self, _other: GtidSet) -> GtidSet:
        """Return the transactions that are in both sets: none."""
        return self

    def add(self, source: str, numbers: Numbers) -> GtidSet:
        """Return a set of the flavour of `source` that holds its transactions `numbers`.

        Args:
            source: "uuid", "uuid:tag" or "domain-server".
            numbers: (n,) int64, in the source's order; may be empty.

        Raises:
            UsageError: `source` is neither MySQL's nor MariaDB's, or a number is out of range.
        """
        if _MARIADB_SOURCE.fullmatch(source):
            return MariaDbGtidSet().add(source, numbers)
        return MySqlGtidSet().add(source, numbers)


NO_GTIDS = NoGtids()


@dataclass(frozen=True, slots=True)
class MySqlGtidSet:
    """MySQL's set: disjoint, sorted, never touching intervals per source, sources sorted.

    Made by `parse_gtid_set`, `add` and `union`, which keep that form; the constructor does not check.
    """

    #: sources sorted, untagged before tagged; each with at least one interval
    runs: tuple[tuple[Source, tuple[Interval, ...]], ...] = ()

    def __str__(self) -> str:
        sets: dict[str, list[str]] = {}
        for (uuid, tag), intervals in self.runs:
            parts = sets.setdefault(uuid, [uuid])
            parts += [tag] if tag else []
            parts += (interval_text(interval) for interval in intervals)
        return ",".join(":".join(parts) for parts in sets.values())

    def __bool__(self) -> bool:
        return bool(self.runs)

    def contains(self, other: GtidSet) -> bool:
        """Return whether every transaction of `other` is in this set; false for a MariaDB set."""
        if not isinstance(other, MySqlGtidSet):
            return not other
        mine = dict(self.runs)
        return all(
            covers(mine.get(source, ()), interval) for source, theirs in other.runs for interval in theirs
        )

    def holds(self, source: str, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of the transactions `numbers` of `source` are in this set.

        Args:
            source: "uuid" or "uuid:tag"; a source of MariaDB has no transaction in this set.
            numbers: (n,) int64; 0, no GTID, is never in a set.

        Returns:
            (n,) bool.
        """
        uuid, _, tag = source.lower().partition(":")
        return among(dict(self.runs).get((uuid, tag), ()), numbers)

    def union(self, other: GtidSet) -> GtidSet:
        """Return the transactions of both sets.

        Raises:
            UsageError: `other` is a MariaDB set.
        """
        if not isinstance(other, MySqlGtidSet):
            return _or_mixed(self, other)
        runs = dict(self.runs)
        for source, intervals in other.runs:
            runs[source] = joined(runs.get(source, ()), np.array(intervals, dtype=np.int64))
        return _mysql(runs)

    def intersection(self, other: GtidSet) -> GtidSet:
        """Return the transactions that are in both sets: none of a MariaDB set."""
        theirs = dict(other.runs) if isinstance(other, MySqlGtidSet) else {}
        runs = {source: common(mine, theirs.get(source, ())) for source, mine in self.runs}
        kept = {source: intervals for source, intervals in runs.items() if intervals}
        return _mysql(kept) if kept else NO_GTIDS

    def add(self, source: str, numbers: Numbers) -> GtidSet:
        """Return the set with transactions `numbers` of `source`; their order does not matter.

        Args:
            source: "uuid" or "uuid:tag".
            numbers: (n,) int64, from 1; zeros are ignored.

        Raises:
            UsageError: `source` is not MySQL's, or a number is out of range.
        """
        key = _source(source)
        values = _positive(numbers)
        if not len(values):
            return self or NO_GTIDS
        runs = dict(self.runs)
        runs[key] = with_numbers(runs.get(key, ()), values)
        return _mysql(runs)


@dataclass(frozen=True, slots=True)
class MariaDbGtidSet:
    """MariaDB's set: the last transaction of each domain represents all before it.

    It has no gaps: a sequence below the domain's entry counts as contained.
    """

    #: (domain, server id, sequence), sorted, one per domain
    domains: tuple[tuple[int, int, int], ...] = ()

    def __str__(self) -> str:
        return ",".join(f"{domain}-{server}-{sequence}" for domain, server, sequence in self.domains)

    def __bool__(self) -> bool:
        return bool(self.domains)

    def contains(self, other: GtidSet) -> bool:
        """Return whether each domain's entry in `other` is at or before this set's; false for a MySQL set."""
        if not isinstance(other, MariaDbGtidSet):
            return not other
        mine = {domain: sequence for domain, _, sequence in self.domains}
        return all(sequence <= mine.get(domain, 0) for domain, _, sequence in other.domains)

    def holds(self, source: str, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of the transactions `numbers` of `source` are at or before their domain's entry.

        Args:
            source: "domain-server"; a source of MySQL has no transaction in this set.
            numbers: (n,) int64; 0, no GTID, is never in a set.

        Returns:
            (n,) bool.
        """
        match = _MARIADB_SOURCE.fullmatch(source)
        last = (
            {domain: sequence for domain, _, sequence in self.domains}.get(int(match[1]), 0) if match else 0
        )
        held: NDArray[np.bool_] = (numbers > 0) & (numbers <= last)
        return held

    def union(self, other: GtidSet) -> GtidSet:
        """Return the later entry of each domain; of two equal sequences the one of the higher server id.

        Raises:
            UsageError: `other` is a MySQL set.
        """
        if not isinstance(other, MariaDbGtidSet):
            return _or_mixed(self, other)
        last: dict[int, tuple[int, int]] = {}
        for domain, server, sequence in self.domains + other.domains:
            last[domain] = max(last.get(domain, (0, 0)), (sequence, server))
        return _mariadb({domain: (server, sequence) for domain, (sequence, server) in last.items()})

    def intersection(self, other: GtidSet) -> GtidSet:
        """Return the earlier entry of each domain that both sets have: none of a MySQL set."""
        theirs = other.domains if isinstance(other, MariaDbGtidSet) else ()
        found = {domain: (sequence, server) for domain, server, sequence in theirs}
        kept = {
            domain: min((sequence, server), found[domain])
            for domain, server, sequence in self.domains
            if domain in found
        }
        return _mariadb({each: (server, last) for each, (last, server) in kept.items()}) if kept else NO_GTIDS

    def add(self, source: str, numbers: Numbers) -> GtidSet:
        """Return the set with the domain's entry replaced by the last of `numbers`, as the server does.

        Args:
            source: "domain-server".
            numbers: (n,) int64 in the source's order; zeros are ignored.

        Raises:
            UsageError: `source` is not MariaDB's, or a number is negative.
        """
        match = _MARIADB_SOURCE.fullmatch(source)
        if match is None:
            raise UsageError(f"{source!r} is not a GTID source of MariaDB.", hint="Expected domain-server.")
        values = _positive(numbers)
        if not len(values):
            return self or NO_GTIDS
        last = {domain: (server, sequence) for domain, server, sequence in self.domains}
        return _mariadb(last | {int(match[1]): (int(match[2]), int(values[-1]))})


def parse_gtid_set(text: str) -> GtidSet:
    """Return the set that a server's text describes; empty text is `NO_GTIDS`.

    White space, line breaks, upper case, unsorted and overlapping intervals are accepted, as MySQL does.

    Raises:
        UsageError: the text is too long, has neither server's form, mixes both, or names a MariaDB domain
            twice.
    """
    if len(text) > SET_TEXT_MAX:
        raise UsageError(f"A GTID set has {len(text)} characters, more than {SET_TEXT_MAX}.")
    items = [item for item in re.sub(r"\s+", "", text).lower().split(",") if item]
    if not items:
        return NO_GTIDS
    if all(_MARIADB.fullmatch(item) for item in items):
        return _parse_mariadb(items)
    intervals: dict[Source, list[Interval]] = {}
    for item in items:
        for source, interval in _parse_uuid_set(item):
            intervals.setdefault(source, []).append(interval)
    return _mysql({source: joined((), np.array(found)) for source, found in intervals.items()})


def _parse_mariadb(items: Iterable[str]) -> GtidSet:
    last: dict[int, tuple[int, int]] = {}
    for item in items:
        domain, server, sequence = map(int, item.split("-"))
        if domain in last:
            raise UsageError(f"MariaDB's domain {domain} appears twice in a GTID set.", hint=_EXPECTED)
        if not 0 < sequence <= NUMBER_MAX or max(domain, server) > _ID_MAX:
            _refuse(item)
        last[domain] = server, sequence
    return _mariadb(last)


def _parse_uuid_set(item: str) -> Iterable[tuple[Source, Interval]]:
    uuid, *parts = item.split(":")
    if not _UUID.fullmatch(uuid) or not parts or not _INTERVAL.fullmatch(parts[-1]):
        _refuse(item)
    tag, after_tag = "", False
    for part in parts:
        if _TAG.fullmatch(part) and not after_tag:
            tag, after_tag = part, True
        else:
            yield (uuid, tag), _parse_interval(part, item)
            after_tag = False


def _parse_interval(part: str, item: str) -> Interval:
    match = _INTERVAL.fullmatch(part)
    if match is None:
        _refuse(item)
    begin, last = int(match[1]), int(match[2] or match[1])
    if not 0 < begin <= last <= NUMBER_MAX:
        _refuse(item)
    return begin, last + 1


def _refuse(item: str) -> NoReturn:
    raise UsageError(f"{shown(item)} is not a GTID set.", hint=_EXPECTED)


def _source(text: str) -> Source:
    uuid, _, tag = text.lower().partition(":")
    if not _UUID.fullmatch(uuid) or (":" in text and not _TAG.fullmatch(tag)):
        raise UsageError(f"{text!r} is not a GTID source of MySQL.", hint="Expected uuid or uuid:tag.")
    return uuid, tag


def _positive(numbers: Numbers) -> NDArray[np.int64]:
    values = np.asarray(numbers, dtype=np.int64)
    if len(values) and (values.min() < 0 or values.max() > NUMBER_MAX):
        raise UsageError(f"A GTID's number is between 1 and {NUMBER_MAX}; got {numbers!r}.")
    return values[values > 0]


def _mysql(runs: Mapping[Source, tuple[Interval, ...]]) -> GtidSet:
    return MySqlGtidSet(tuple(sorted(runs.items())))


def _mariadb(last: Mapping[int, tuple[int, int]]) -> GtidSet:
    return MariaDbGtidSet(tuple(sorted((domain, *entry) for domain, entry in last.items())))


def _or_mixed(mine: GtidSet, other: GtidSet) -> GtidSet:
    if other:
        raise UsageError(f"The GTID sets {mine} and {other} come from MySQL and MariaDB: they never mix.")
    return mine or NO_GTIDS
