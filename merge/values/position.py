"""Positions: a comparable position in one binlog, and the vector of one per shard.

A `GroupPosition` is the cursor of a subscriber and one JSON value, written atomically: keys in stable order,
no floats, so that equal positions are equal text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence, Sized
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeVar

from canal_group.merge.errors import UsageError
from canal_group.merge.file_name import is_file_name
from canal_group.merge.file_name import shown as shown_name
from canal_group.merge.values.gtids.gtid import NO_GTIDS, GtidSet, parse_gtid_set
from canal_group.merge.values.resets.last_transaction import LastTransaction
from canal_group.merge.whole import (
    ROWS,
    SEQUENCES,
    SERVER_IDS,
    TIMES_S,
    TIMES_US,
    WHOLE,
    Bounds,
    shown,
    whole,
)

S = TypeVar("S", bound=Sized)

#: `server` of a position that has no file and offset in any server's binlog: only its GTID set counts
ANY_SERVER = "*"

#: shards that one server may have, including those that have left: an index is a u16 in a header
MEMBERS_MAX = 1 << 16
#: characters of the text of a group position: in each shard, a snapshot's cursor and a GTID set
TEXT_MAX = 16 << 20
#: characters of the name of a file, a server or a shard: a server bounds file names by 512
_NAME_MAX = 512
#: without quotes, since a name becomes a part of statements too
_FILE = re.compile(r"(?P<base>[^'\"`]+)\.(?P<number>[0-9]{1,18})")
#: bytes of a binlog file's name in UTF-8: names of pages, which begin with it, still fit into a file system
BINLOG_NAME_BYTES_MAX = 128


def file_order(file: str) -> tuple[str, int]:
    """Return the sort key of a binlog file name: its base name, then its number.

    The number is compared as one: `mysql-bin.999999` is followed by `mysql-bin.1000000`.

    Raises:
        UsageError: the name does not end in a dot and a number, has a quote, has more than
            `BINLOG_NAME_BYTES_MAX` bytes, or cannot be a part of a path, see `is_file_name`.
    """
    match = _FILE.fullmatch(file)
    if match is None or not is_file_name(file) or len(file.encode()) > BINLOG_NAME_BYTES_MAX:
        raise UsageError(
            f"{shown_name(file)} is not a binlog file name.", hint="Expected a name such as mysql-bin.000001."
        )
    return match["base"], int(match["number"])


@dataclass(frozen=True, slots=True)
class Position:
    """A position in one shard's binlog: everything before `offset` of `file` has been read.

    Positions of one source compare by file number, offset and rows; pages precede the transaction at their
    offset. Comparing positions of two sources (base
    names or servers differ) raises UsageError.
    """

    #: binlog file name
    file: str
    #: bytes from the file's start to the next event
    offset: int
    #: every transaction before this position, as far as the source has GTIDs
    gtid_set: GtidSet = NO_GTIDS
    #: commit time of the last transaction before this position; 0 unknown
    commit_us: int = 0
    #: timeline key of the last transaction before this position; 0 unknown
    key_us: int = 0
    #: row changes already read of the transaction that begins at `offset`; 0 except inside a huge transaction
    rows_into_transaction: int = 0
    #: ordinals already read of the pages of snapshots that enter at `offset`, see `Flag.PAGE`
    page_rows: int = 0
    #: how far the client's snapshot of the shard has come, as text, see
    #: `canal_group.merge.snapshot.cursor.SnapshotCursor`; None: no snapshot
    snapshot: str | None = None
    #: identity of the server to whose binlog `file` and `offset` belong; empty: not known; or `ANY_SERVER`
    server: str = ""
    #: when `file` was created, by the timestamp of its first event, seconds since 1970; 0 unknown. It tells
    #: the file from another one of the same name. Comparisons of positions ignore it
    created_s: int = 0
    #: id of the server that committed the transaction of `commit_us` first, if `commit_us` is the time of
    #: that commit and the transaction has no GTID; 0 unknown. By both it is found on another server
    origin_id: int = 0
    #: the transaction of `commit_us`, to look for where a stream continues, because GTID numbers may be given
    #: again; None: unknown. Comparisons of positions ignore this field
    last: LastTransaction | None = None
    #: cached JSON text of the position; empty before the first use
    _text: str = field(default="", init=False, repr=False, compare=False)

    def is_of(self, server: str) -> bool:
        """Return whether `file` and `offset` may belong to the binlog of `server`."""
        return not self.server or not server or self.server == server

    def _order(self, other: Position) -> tuple[tuple[int, ...], tuple[int, ...]]:
        (base, number), (other_base, other_number) = file_order(self.file), file_order(other.file)
        if base != other_base or not self.is_of(other.server) or ANY_SERVER in (self.server, other.server):
            raise UsageError(
                f"Positions in {self.file} and {other.file} cannot be compared.",
                hint="They come from two servers, or the server's log_bin was renamed.",
            )
        return (
            (number, self.offset, self.rows_into_transaction, self.page_rows),
            (other_number, other.offset, other.rows_into_transaction, other.page_rows),
        )

    def __lt__(self, other: Position) -> bool:
        mine, theirs = self._order(other)
        return mine < theirs

    def __le__(self, other: Position) -> bool:
        mine, theirs = self._order(other)
        return mine <= theirs

    def within(self, other: Position) -> bool:
        """Return whether everything before this position is before the other one; False also if unknown."""
        try:
            return self <= other
        except UsageError:  # of two servers, or of any
            return bool(self.gtid_set) and other.gtid_set.contains(self.gtid_set)

    def __str__(self) -> str:
        pages = f"+{self.page_rows} rows of pages" if self.page_rows else ""
        inside = f"+{self.rows_into_transaction} rows" if self.rows_into_transaction else ""
        return f"{self.file}:{self.offset}{pages}{inside}"

    def to_dict(self) -> dict[str, Any]:
        """Return the position as a JSON object, without the optional fields that are 0 or not known."""
        value: dict[str, Any] = {
            "file": self.file,
            "offset": self.offset,
            "gtid_set": str(self.gtid_set),
            "commit_us": self.commit_us,
            "key_us": self.key_us,
            "rows_into_transaction": self.rows_into_transaction,
            "server": self.server,
        }
        if self.page_rows:
            value["page_rows"] = self.page_rows
        if self.snapshot is not None:
            value["snapshot"] = self.snapshot
        if self.created_s:
            value["created_s"] = self.created_s
        if self.origin_id:
            value["origin_id"] = self.origin_id
        if self.last is not None:
            value["last"] = {name: getattr(self.last, name) for name in LastTransaction.__slots__}
        return value

    def to_json(self) -> str:
        """Return it as JSON text with all that is known of it; equal positions give equal text."""
        if not self._text:
            object.__setattr__(self, "_text", _json(self.to_dict()))
        return self._text

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Position:
        """Return the position that `to_dict` wrote.

        Raises:
            UsageError: a field is missing or has the wrong type; numbers have to be whole and not negative.
        """
        try:
            position = cls(
                file=_name(value["file"]),
                offset=_number(value, "offset", WHOLE),
                gtid_set=parse_gtid_set(_text(value.get("gtid_set", ""))),
                commit_us=_number(value, "commit_us", TIMES_US, 0),
                key_us=_number(value, "key_us", TIMES_US, 0),
                rows_into_transaction=_number(value, "rows_into_transaction", ROWS, 0),
                page_rows=_number(value, "page_rows", ROWS, 0),
                snapshot=None if "snapshot" not in value else _text(value["snapshot"]),
                server=_name(value.get("server", "")),
                created_s=_number(value, "created_s", TIMES_S, 0),
                origin_id=_number(value, "origin_id", SERVER_IDS, 0),
                last=_last(value["last"]) if "last" in value else None,
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UsageError(
                f"{shown(value)} is not a position ({type(error).__name__}: {error}).",
                hint='Expected {"file": "mysql-bin.000001", "offset": 4, ...}.',
            ) from error
        file_order(position.file)
        return position


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _last(value: Mapping[str, Any]) -> LastTransaction:
    gtid = _name(value["gtid"])
    parse_gtid_set(gtid)
    return LastTransaction(
        gtid=gtid,
        commit_us=_number(value, "commit_us", TIMES_US),
        server=_name(value["server"]),
        file=_name(value["file"]),
        begin_offset=_number(value, "begin_offset", WHOLE),
    )


def _number(value: Mapping[str, Any], name: str, bounds: Bounds, absent: int | None = None) -> int:
    """Return a member of a JSON object, which may be absent if `absent` is a number; raises as `whole`."""
    if absent is not None and name not in value:
        return absent
    try:
        return whole(value[name], bounds)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a {type(value).__name__} is not a text")
    return value


def _name(value: Any) -> str:
    return _at_most(_NAME_MAX, "characters in a name", _text(value))


def _at_most(most: int, unit: str, value: S) -> S:
    if len(value) > most:
        raise ValueError(f"it has {len(value)} {unit}, more than {most}")
    return value


def oldest(positions: Sequence[Position]) -> Position:
    """Return a position that is not after any of these.

    After a failover the positions may belong to two servers: files and offsets cannot be compared. Then:

    - if every position has GTIDs, return the position whose transactions are in all the others too;
    - if there is none, because the servers committed in different orders, return a position (`ANY_SERVER`)
      after the transactions that all of them have, which only its GTID set describes;
    - without GTIDs, return the position with the smallest key, or commit time if that is greater: a shard
      may be opened by the commit time, and a client may have invented a smaller key.
    """
    one_server = all(position.is_of(other.server) for position in positions for other in positions)
    described = any(position.server == ANY_SERVER for position in positions)
    if one_server and not described and len({file_order(position.file)[0] for position in positions}) == 1:
        return min(positions)
    first = min(positions, key=lambda position: max(position.key_us, position.commit_us))
    if not all(position.gtid_set for position in positions):
        return first
    shared = reduce(lambda found, each: found.intersection(each.gtid_set), positions, first.gtid_set)
    within = [position for position in positions if position.gtid_set == shared]
    if within:
        return min(within, key=lambda position: position.key_us)
    commit_us = min(position.commit_us for position in positions)
    return replace(
        first,
        offset=0,
        gtid_set=shared,
        commit_us=commit_us,
        rows_into_transaction=0,
        page_rows=0,
        server=ANY_SERVER,
        created_s=0,
        origin_id=0,
        last=None,
    )


def furthest(positions: Iterable[Position]) -> tuple[Position, ...]:
    """Return the positions that are not within another one: one, if the others are all before it.

    Positions of two histories are kept both: in files of one name that were created at two times, or at one
    offset after two transactions.
    """

    def is_before(one: Position, other: Position) -> bool:
        two_files = one.file == other.file and one.is_of(other.server) and one.created_s != other.created_s
        same_offset = (one.server, one.file, one.offset) == (other.server, other.file, other.offset)
        return one.within(other) and not two_files and not (same_offset and one.last != other.last)

    found: list[Position] = []
    for each in positions:
        if not any(is_before(each, other) for other in found):
            found = [*(other for other in found if not is_before(other, each)), each]
    return tuple(found)


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """One position per shard, and the next merged sequence: a subscriber's cursor.

    A batch carries several, and most are only passed on. So each keeps its text, travels between processes as
    it, and one that came by `of_text` is read when a field is used first.
    """

    shards: Mapping[str, Position] = field(default_factory=dict)
    #: number of row changes (and statements) that the merged stream has passed
    sequence: int = 0
    #: names of the shards that left the stream, sorted; these names are never reused
    retired: tuple[str, ...] = ()
    #: greatest timeline key that was passed in those; 0: none. Keys never fall below what a cursor has passed
    retired_key_us: int = 0
    #: positions at which shards joined a running stream; an older cursor has read nothing before them
    joined: Mapping[str, Position] = field(default_factory=dict)
    #: cached JSON text of the position; empty before the first use
    _text: str = field(default="", init=False, repr=False, compare=False)

    @classmethod
    def of_text(cls, text: str, sequence: int | None = None) -> GroupPosition:
        """Return the position that `to_json` wrote; its fields raise UsageError if it wrote no such text.

        Args:
            text: JSON.
            sequence: that of the position, to be known without reading the text; None: it is read.
        """
        position = object.__new__(cls)
        object.__setattr__(position, "_text", text)
        if sequence is not None:
            object.__setattr__(position, "sequence", sequence)
        return position

    def check(self) -> None:
        """Return if its fields can be read; raises UsageError as `of_text` says."""
        len(self.shards)

    def _read(self) -> None:
        there = GroupPosition.from_json(self._text)
        for each in _FIELDS:
            object.__setattr__(self, each, getattr(there, each))

    if not TYPE_CHECKING:  # the fields are declared, and there are no others

        def __getattr__(self, name: str) -> Any:
            """Read the text; called for a field that is not set yet."""
            if name not in _FIELDS:
                raise AttributeError(name)
            self._read()
            return getattr(self, name)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to make a copy of it in another process."""
        return GroupPosition.of_text, (self.to_json(), self.sequence)

    @property
    def passed_us(self) -> int:
        """Greatest timeline key before this position."""
        return max([self.retired_key_us, *(position.key_us for position in self.shards.values())])

    @property
    def snapshots(self) -> dict[str, str]:
        """Texts of the snapshots that are not over, by shard."""
        known = ((name, position.snapshot) for name, position in self.shards.items())
        return {name: text for name, text in known if text is not None}

    def with_snapshots(self, texts: Mapping[str, str | None]) -> GroupPosition:
        """Return a copy in which shards have other snapshots, or none."""
        shards = {name: replace(self.shards[name], snapshot=text) for name, text in texts.items()}
        return replace(self, shards={**self.shards, **shards})

    def without(self, names: AbstractSet[str]) -> GroupPosition:
        """Return a copy in which these shards have left."""
        gone = [position.key_us for name, position in self.shards.items() if name in names]
        return replace(
            self,
            shards={name: position for name, position in self.shards.items() if name not in names},
            retired=tuple(sorted({*self.retired, *names})),
            retired_key_us=max([self.retired_key_us, *gone]),
            joined={name: position for name, position in self.joined.items() if name not in names},
        )

    def with_shard(self, shard: str, position: Position) -> GroupPosition:
        """Return a copy in which `shard` is at `position`."""
        return replace(self, shards={**self.shards, shard: position})

    def further(self, other: GroupPosition) -> GroupPosition:
        """Return a copy in which each shard has the later of its two positions; new shards are not added."""
        shards = {
            name: other.shards[name]
            if name in other.shards and oldest([position, other.shards[name]]) == position
            else position
            for name, position in self.shards.items()
        }
        return replace(
            self,
            shards=shards,
            sequence=max(self.sequence, other.sequence),
            retired_key_us=max(self.retired_key_us, other.retired_key_us),
        )

    def knows_shards_of(self, other: GroupPosition) -> bool:
        """Return whether both name the same shards, the same retired ones and the same joined ones."""
        return (self.shards.keys(), self.retired, self.joined.keys()) == (
            other.shards.keys(),
            other.retired,
            other.joined.keys(),
        )

    def to_json(self) -> str:
        """Return the position as JSON text with stable key order; equal positions give equal text."""
        if not self._text:
            object.__setattr__(self, "_text", self._written())
        return self._text

    def _written(self) -> str:
        members = [f'"sequence":{self.sequence}', f'"shards":{_texts(self.shards)}']
        if self.retired_key_us:
            members.insert(0, f'"retired_key_us":{self.retired_key_us}')
        if self.retired:
            members.insert(0, f'"retired":{_json(self.retired)}')
        if self.joined:
            members.insert(0, f'"joined":{_texts(self.joined)}')
        return f"{{{','.join(members)}}}"

    @classmethod
    def from_json(cls, text: str | bytes) -> GroupPosition:
        """Return the position that `to_json` wrote.

        Raises:
            UsageError: the text is not a group position.
        """
        try:
            value = json.loads(_at_most(TEXT_MAX, "characters", text))
            shards, sequence = dict(value["shards"]), _number(value, "sequence", SEQUENCES)
            retired = tuple(sorted(value.get("retired", ())))
            retired_key_us = _number(value, "retired_key_us", TIMES_US, 0)
            joined = dict(value.get("joined", {}))
            for names in (shards, retired, joined):
                for name in _at_most(MEMBERS_MAX, "shards", names):
                    _name(name)
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise UsageError(f"{shown(text)} is not a group position ({error}).") from error
        return cls(
            {name: Position.from_dict(position) for name, position in shards.items()},
            sequence,
            retired,
            retired_key_us,
            {name: Position.from_dict(position) for name, position in joined.items()},
        )


#: the fields that the text of a group position has
_FIELDS = ("shards", "sequence", "retired", "retired_key_us", "joined")


def _texts(positions: Mapping[str, Position]) -> str:
    """Return the JSON of positions by name; the text of each was made once."""
    return "{" + ",".join(f"{_json(name)}:{positions[name].to_json()}" for name in sorted(positions)) + "}"
