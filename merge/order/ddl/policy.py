"""The DDL policy: which headers of DDL statements are delivered, the same however often they are read.

`rounds` decides when a statement comes first. That depends on when the shards brought it, and on which shards
there were. So decisions are kept, and made durable before anything that depends on them goes out. What is
read again, by whichever server, client or offset range, finds its decision here.

Kept are, for each shard, a *beginning* and an *end*: positions between which every statement is decided. A
statement between them is delivered if it is among the *delivered* ones, which are kept by GTID, or by file
and offset if there is none. A statement at or before the beginning came before this ledger, or was forgotten:
it is delivered, as with `every`, and counts for nothing. A statement after the end is new.

At most `DELIVERED_MAX` delivered statements are kept. Beyond, the older half of them is forgotten, and the
beginnings move to where the ends were when the newer half began.

Where another server answers, GTIDs tell what lies between the two. Without GTIDs every statement that this
server brings is new: what was delivered shortly before such a failover may be delivered again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canal_group.merge.errors import ConfigError, UsageError
from canal_group.merge.order.ddl.rounds import DdlRounds, Shards
from canal_group.merge.order.ddl.rule import DdlRule
from canal_group.merge.values.ddl_mark import ERASE, DdlMark
from canal_group.merge.values.header import Flag, Headers, gtid_text
from canal_group.merge.values.offset_range import up_to
from canal_group.merge.values.position import Position
from canal_group.merge.values.resets.reset import begun_anew

#: delivered statements that are kept, over all shards
DELIVERED_MAX = 8_192
#: what of the text a later version of it has to differ in
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the headers of one shard come from."""

    shard: str
    #: identity of its server
    server: str
    #: when its binlog files were created, by name, seconds since 1970; only known ones
    created: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Decided:
    """Between which positions of a shard every statement is decided."""

    begin: Position
    #: the end when the newer half of the delivered statements began
    middle: Position
    end: Position

    @classmethod
    def nothing(cls, position: Position) -> _Decided:
        return cls(position, position, position)


class DdlPolicy:
    """Decides about DDL headers; see the module.

    Args:
        rule: FIRST or LAST.
        stored: a text that `to_text` made; None: nothing is decided. One of another rule is not used.
        delivered_max: delivered statements that are kept.

    Raises:
        ConfigError: the text is none.
    """

    def __init__(
        self, rule: DdlRule, stored: str | None = None, *, delivered_max: int = DELIVERED_MAX
    ) -> None:
        self._delivered_max = delivered_max
        self.rounds = DdlRounds(rule)
        #: how often something was decided; `to_text` has all of it
        self.version = 0
        #: headers in this tenure that were delivered, or withheld
        self.delivered = self.withheld = 0
        self._decided: dict[str, _Decided] = {}
        #: (shard, identity) of delivered statements
        self._older: set[tuple[str, str]] = set()
        self._newer: set[tuple[str, str]] = set()
        #: names of each shard's tables; a shard that is missing may have any
        self._tables: dict[str, set[str]] = {}
        if stored is not None:
            self._load(stored)

    # ---- tables --------------------------------------------------------------------------------------------

    def forget_tables(self) -> None:
        """Forget which tables the shards have: they are opened again, and will say it."""
        self._tables.clear()

    def learn_tables(self, shard: str, tables: frozenset[str]) -> None:
        """Note which tables a shard has where it reads.

        That is ahead of what is merged: a table remains known until the statement is merged that removes it.
        """
        self._tables.setdefault(shard, set()).update(tables)

    def _removed(self, shard: str, mark: DdlMark) -> None:
        if mark.op == ERASE and mark.tables == 1 and shard in self._tables:
            self._tables[shard].discard(mark.table)

    # ---- decisions -----------------------------------------------------------------------------------------

    def decide(
        self,
        headers: Headers,
        marks: Mapping[int, DdlMark],
        names: tuple[str, ...],
        origins: Sequence[Origin],
        shards: Shards,
        before: Callable[[str], Position],
        after: Callable[[str], Position],
    ) -> NDArray[np.bool_]:
        """Return which headers are withheld.

        Args:
            headers: (n,) HEADER in merged order.
            marks: by index in `headers`: the statements on tables.
            names: what the headers' indexes point to.
            origins: by shard_index.
            shards: the shards, as they are now.
            before: returns where a shard's statements begin to be decided, if none is: where the log begins.
            after: returns a shard's position after the last of `headers`.
        """
        withheld = np.zeros(len(headers), dtype=np.bool_)
        at = np.array(sorted(marks), dtype=np.intp)
        old, known = self._decided_before(headers, at, names, origins, before)
        new: set[str] = set()
        for index, is_old, is_known in zip(at.tolist(), old, known, strict=True):
            origin, mark = origins[int(headers[index]["shard"])], marks[index]
            if is_old:
                continue
            identity = _identity(headers[index], names, origin)
            if is_known:
                delivered = any((origin.shard, identity) in kept for kept in (self._older, self._newer))
            else:
                new.add(origin.shard)
                delivered = self._new(origin, headers[index], mark, names, identity, shards)
            self._removed(origin.shard, mark)
            withheld[index] = not delivered
        self.delivered += len(at) - int(withheld.sum())
        self.withheld += int(withheld.sum())
        for shard in new:
            self._decided[shard] = replace(self._decided[shard], end=after(shard))
        self.version += bool(new)
        self._bound()
        return withheld

    def find(
        self, header: Headers, names: tuple[str, ...], origin: Origin, passed: Position | None
    ) -> bool | None:
        """Return whether a statement was withheld; None: nothing is decided about it yet.

        Args:
            header: (1,) HEADER of the statement.
            names: what its indexes point to.
            origin: of its shard.
            passed: up to where the stream has passed its shard for which decisions are made.
        """

        def before(position: Position) -> bool:
            return bool(up_to(header, names, position, same_server=position.is_of(origin.server))[0])

        decided = self._decided.get(origin.shard)
        if decided is not None and not _replaced(decided.end, header, names, origin):
            if before(decided.begin):
                return False
            if before(decided.end):
                identity = origin.shard, _identity(header[0], names, origin)
                return not any(identity in kept for kept in (self._older, self._newer))
        # In all other cases the statement came before the ledger, or never.
        return False if passed is not None and before(passed) else None

    def _decided_before(
        self,
        headers: Headers,
        at: NDArray[np.intp],
        names: tuple[str, ...],
        origins: Sequence[Origin],
        before: Callable[[str], Position],
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which statements are at or before the beginning of their shard, and which before the end."""
        old, known = (np.zeros(len(at), dtype=np.bool_) for _ in range(2))
        for index in np.unique(headers["shard"][at]).tolist():
            mine, origin = np.flatnonzero(headers["shard"][at] == index), origins[index]
            rows = headers[at[mine]]
            decided = self._decided.get(origin.shard)
            if decided is None or _replaced(decided.end, rows, names, origin):
                for kept in (self._older, self._newer):
                    kept -= {each for each in kept if each[0] == origin.shard}
                self._decided[origin.shard] = decided = _Decided.nothing(before(origin.shard))
            for found, position in ((old, decided.begin), (known, decided.end)):
                found[mine] = up_to(rows, names, position, same_server=position.is_of(origin.server))
        return old, known

    def _new(
        self,
        origin: Origin,
        header: np.void,
        mark: DdlMark,
        names: tuple[str, ...],
        identity: str,
        shards: Shards,
    ) -> bool:
        position = f"{origin.shard} {names[header['file']]}:{int(header['begin_offset'])}"
        gtid = gtid_text(names[header["gtid_source"]], int(header["gtid_number"]))
        delivered = self.rounds.decide(
            origin.shard,
            mark,
            replace(shards, tables=self._tables),
            at=f"{position} {gtid}".strip(),
            commit_us=int(header["commit_us"]),
        )
        if delivered:
            self._newer.add((origin.shard, identity))
        return delivered

    def _bound(self) -> None:
        if len(self._newer) >= self._delivered_max // 2:
            self._older, self._newer = self._newer, set()
            self._decided = {
                shard: _Decided(decided.middle, decided.end, decided.end)
                for shard, decided in self._decided.items()
            }

    # ---- for the store, and for people -------------------------------------------------------------------

    def to_text(self) -> str:
        """Return the state to store, as a JSON text."""
        value = {
            "version": _VERSION,
            "rule": self.rounds.rule.value,
            "decided": {
                shard: [each.begin.to_dict(), each.middle.to_dict(), each.end.to_dict()]
                for shard, each in self._decided.items()
            },
            "older": sorted(self._older),
            "newer": sorted(self._newer),
            "rounds": self.rounds.to_json(),
        }
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)

    def _load(self, stored: str) -> None:
        try:
            value = json.loads(stored)
            rule = {_VERSION: value["rule"]}[value["version"]]
            if rule != self.rounds.rule.value:
                return
            self.rounds.load_json(value["rounds"])
            self._older, self._newer = (
                {(str(shard), str(identity)) for shard, identity in value[name]}
                for name in ("older", "newer")
            )
            self._decided = {
                str(shard): _Decided(*map(Position.from_dict, positions))
                for shard, positions in value["decided"].items()
            }
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError, UsageError) as error:
            raise ConfigError(
                f"The stored decisions of merge.ddl cannot be read ({type(error).__name__}: {error}).",
                hint="Remove them, see docs/merging.md: new ones begin where reading is.",
            ) from error

    def describe(self, shards: Shards) -> dict[str, Any]:
        """Return the state as a JSON object."""
        return {
            "rule": self.rounds.rule.value,
            "delivered": self.delivered,
            "withheld": self.withheld,
            "missed": self.rounds.missed,
            "waiting": self.rounds.withheld,
            "statements": self.rounds.describe(replace(shards, tables=self._tables)),
        }


def withhold(headers: Headers, withheld: NDArray[np.bool_]) -> None:
    """Make headers say that their statements are not delivered, in place."""
    flags = headers["flags"][withheld] & ~np.uint16(Flag.DDL)
    headers["flags"][withheld] = flags | np.uint16(Flag.WITHHELD)
    headers["rows"][withheld] = 0
    headers["bytes"][withheld] = 0


def _identity(header: np.void, names: tuple[str, ...], origin: Origin) -> str:
    gtid = gtid_text(names[header["gtid_source"]], int(header["gtid_number"]))
    return gtid or f"{origin.server}:{names[header['file']]}:{int(header['begin_offset'])}"


def _replaced(end: Position, headers: Headers, names: tuple[str, ...], origin: Origin) -> bool:
    """Return whether headers come from another binlog with files of the same names: the server was reset."""
    files = (names[index] for index in np.unique(headers["file"]).tolist())
    return end.is_of(origin.server) and any(
        begun_anew((end.file, end.created_s), (file, origin.created.get(file, 0))) for file in files
    )
