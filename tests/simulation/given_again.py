"""Servers that give numbers again, and two readers that have to notice. Each transaction has an identity.

A schedule is of a seed: servers commit, replicate, rotate, purge, lose the end of their log, are reset, are
restored from a copy, or take another one's id, and the readers are given one stream of them, from the oldest
of their positions on, with the product's rules. A
replica does not go on with a source whose transactions it has otherwise under the same numbers.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from random import Random

import numpy as np
from support.defaults import address_of

from canal_group.binlog.server.listener import position_after
from canal_group.binlog.server.source import ServerFacts
from canal_group.binlog.server.starts.identity import Identity
from canal_group.binlog.server.starts.logged import Logged
from canal_group.binlog.server.starts.start import StartBy, goes_by_gtid
from canal_group.merge.errors import DataError, SourceUnavailable
from canal_group.merge.values.chunk import Chunk
from canal_group.merge.values.gtids.gtid import NO_GTIDS, GtidSet
from canal_group.merge.values.header import HEADER, WHOLE, Headers
from canal_group.merge.values.offset_range import up_to
from canal_group.merge.values.position import Position, furthest, oldest

_HEAD, _SECOND_US = 4, 1_000_000
_ADDRESS = address_of("s0", "simulated")


@dataclass(frozen=True)
class Transaction:
    """A transaction as one server's log has it."""

    #: who it is, whatever its number; the reader does not see it
    identity: int
    source: str
    number: int
    commit_us: int
    original_us: int
    begin: int
    end: int


@dataclass
class File:
    """A file of a log."""

    name: str
    created_s: int
    gtids_before: GtidSet
    transactions: list[Transaction] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.transactions[-1].end if self.transactions else _HEAD


class Server:
    """One server and its log, as `SourceLog`.

    Args:
        name: identity: MySQL's uuid, or MariaDB's server id.
        base: base name of its files.
        mariadb: whether it numbers and stamps as MariaDB does.
        now_us: its clock.
    """

    def __init__(self, name: str, base: str, now_us: int, *, mariadb: bool) -> None:
        self.name, self.base, self.mariadb = name, base, mariadb
        self.gtids: GtidSet = NO_GTIDS
        self.files: list[File] = []
        #: what it has executed, by source and number
        self.history: dict[tuple[str, int], int] = {}
        self._rotations = count(1)
        self.rotate(now_us)

    @property
    def facts(self) -> ServerFacts:
        """What the product knows of it."""
        version = "10.11.6-MariaDB" if self.mariadb else "8.4.0"
        return ServerFacts(version, 1, self.name, {} if self.mariadb else {"gtid_mode": "ON"})

    @property
    def transactions(self) -> list[tuple[File, Transaction]]:
        """What it still has, in its order."""
        return [(file, each) for file in self.files for each in file.transactions]

    # ---- what happens to it

    def commit(self, identity: int, now_us: int, chance: Random) -> None:
        """Commit a transaction under the next number."""
        source = f"0-{self.name}" if self.mariadb else self.name
        number = next(each for each in count(1) if not self.gtids.holds(source, np.array([each]))[0])
        stamp_us = now_us // _SECOND_US * _SECOND_US if self.mariadb else now_us
        self._write(identity, source, number, stamp_us, stamp_us, chance)

    def replicate(self, theirs: Server, now_us: int, chance: Random) -> None:
        """Commit what another server has and this one counts as missing, if it lacks nothing of before."""
        if not theirs.history.items() >= self.history.items() or not self.gtids.contains(
            theirs.files[0].gtids_before
        ):
            return
        for _, each in theirs.transactions:
            if not self.gtids.holds(each.source, np.array([each.number]))[0]:
                here_us = each.original_us if self.mariadb else now_us
                self._write(each.identity, each.source, each.number, here_us, each.original_us, chance)

    def _write(
        self, identity: int, source: str, number: int, commit_us: int, original_us: int, chance: Random
    ) -> None:
        file = self.files[-1]
        # Two sizes: offsets of different histories coincide often.
        end = file.size + chance.choice((100, 100, 150))
        file.transactions.append(
            Transaction(identity, source, number, commit_us, original_us, file.size, end)
        )
        self.gtids = self.gtids.add(source, [number])
        self.history[source, number] = identity

    def rotate(self, now_us: int) -> None:
        """Begin a new file."""
        name = f"{self.base}.{next(self._rotations):06}"
        self.files.append(File(name, now_us // _SECOND_US, self.gtids))

    def purge(self) -> None:
        """Let go of all files but the last."""
        del self.files[:-1]

    def lose_end(self, now_us: int, chance: Random) -> None:
        """Lose the end of the last file, and begin a new one."""
        file = self.files[-1]
        kept = chance.randrange(len(file.transactions) + 1)
        for each in file.transactions[kept:]:
            del self.history[each.source, each.number]
        del file.transactions[kept:]
        self.gtids = file.gtids_before
        for each in file.transactions:
            self.gtids = self.gtids.add(each.source, [each.number])
        self.rotate(now_us)

    def reset(self, now_us: int) -> None:
        """Forget everything, and number from 1."""
        self.gtids, self.files, self.history, self._rotations = NO_GTIDS, [], {}, count(1)
        self.rotate(now_us)

    def restored(self, now_us: int) -> Server:
        """Return a copy that goes on by itself."""
        other = copy.deepcopy(self)
        other.rotate(now_us)
        return other

    # ---- what the product asks

    def sizes(self) -> Mapping[str, int]:
        """Return the bytes of its files."""
        return {file.name: file.size for file in self.files}

    def gtids_before(self, file: str) -> GtidSet:
        """Return the GTIDs before a file."""
        return self._file(file).gtids_before

    def executed(self) -> GtidSet:
        """Return its executed GTIDs."""
        return self.gtids

    @contextlib.contextmanager
    def read(self, file: str, offset: int) -> Iterator[OpenFile]:
        """Open a file."""
        yield OpenFile(self._file(file), offset)

    def _file(self, name: str) -> File:
        return next(file for file in self.files if file.name == name)


@dataclass(frozen=True)
class OpenFile:
    """A file that is read from an offset on."""

    file: File
    offset: int

    def created(self) -> int:
        """Return when it was created."""
        return self.file.created_s

    def __iter__(self) -> Iterator[Logged]:
        begins = {_HEAD, *(each.begin for each in self.file.transactions), self.file.size}
        if self.offset not in begins:
            raise DataError("no event begins there")
        for each in self.file.transactions:
            if each.begin >= self.offset:
                yield Logged(each.source, each.number, each.commit_us, each.original_us, each.begin)


Coming = list[tuple[File, Transaction]]


class Reader:
    """A reader of one shard, whose cursor is moved by what it reads."""

    def __init__(self, server: Server) -> None:
        file = server.files[0]
        self.position = Position(file.name, _HEAD, server=server.name, created_s=file.created_s)
        self.delivered: set[int] = set()

    def take(self, server: Server, coming: Coming, base: Position, chance: Random) -> None:
        """Read some of what comes from a server after `base`; what the position has is left out."""
        position, same_server = self.position, self.position.is_of(server.name)
        new = [
            (file, each)
            for file, each in coming
            if position == base or not up_to(*_header(file, each), position, same_server=same_server)[0]
        ]
        # Not always to its end.
        for file, each in new[: chance.choice((1, 2, 100, 100))]:
            self.delivered.add(each.identity)
            headers, names = _header(file, each)
            created = {each.name: each.created_s for each in server.files}
            after = position_after(self.position, Chunk(headers, names, ()), server.name, created)
            self.position = replace(after, key_us=max(after.key_us, each.commit_us))
        if chance.random() < 0.3 and len(new) <= 1:
            end = server.files[-1]
            self.position = replace(
                self.position, file=end.name, offset=end.size, server=server.name, created_s=end.created_s
            )


def _header(file: File, each: Transaction) -> tuple[Headers, tuple[str, ...]]:
    """Return the header of a transaction, and the names that it points to."""
    row = (0, 0, int(WHOLE), 1, 0, 1, 1, each.commit_us, each.commit_us, 0, each.begin, each.end, 1)
    return np.array([(*row, each.number, 0, 0)], dtype=HEADER), (file.name, each.source)


@dataclass(frozen=True)
class Stream:
    """A stream of one server to all readers.

    Args:
        server: that is read.
        start_by: as in the product.
        positions: up to where the readers have read.
    """

    server: Server
    start_by: StartBy
    positions: list[Position]

    @property
    def base(self) -> Position:
        """Where it begins."""
        return oldest(self.positions)

    def open(self) -> Coming | None:
        """Return the transactions after the oldest position.

        Returns:
            None: it cannot be read now: it lags, has purged what follows, or nothing says what was read.

        Raises:
            DataError: the product refuses.
        """
        server, position = self.server, self.base
        if not (position.gtid_set or position.is_of(server.name)):
            return None
        by_gtid = goes_by_gtid(_ADDRESS, server.facts, position, self.start_by)
        if by_gtid:
            first, held = server.files[0].gtids_before, position.gtid_set
            if not (server.gtids.contains(held) and held.contains(first)):
                return None
            coming = [
                (file, each)
                for file, each in server.transactions
                if not held.holds(each.source, np.array([each.number]))[0]
            ]
        else:
            if position.file not in server.sizes():
                return None
            coming = self._after(position)
        identity = Identity(_ADDRESS, server.facts, server, position)
        identity.require(by_gtid=by_gtid)
        for each in furthest(self.positions):
            if each == position:
                continue
            try:
                replace(identity, position=each).require_further(partial(self._require_contained, each))
            except SourceUnavailable:
                return None
        return coming

    def _require_contained(self, position: Position) -> None:
        if not self.server.gtids.contains(position.gtid_set):
            raise SourceUnavailable(f"{self.server.name} lags.")

    def _after(self, position: Position) -> Coming:
        """Return the transactions after a file and offset, as the server and the decoder see them."""
        server = self.server
        at = list(server.sizes()).index(position.file)
        if position.created_s != server.files[at].created_s:
            raise DataError("created at another time")
        ends = {_HEAD, *(each.end for each in server.files[at].transactions)}
        if position.offset not in ends:
            raise DataError("beyond the end, or inside an event")
        return [
            (file, each)
            for number, file in enumerate(server.files[at:])
            for each in file.transactions
            if number or each.begin >= position.offset
        ]


@dataclass
class Played:
    """What became of a schedule."""

    read: int = 0
    refused: int = 0
    unavailable: int = 0
    #: transactions that a server had, and that were left out as if they had been read
    left_out: list[str] = field(default_factory=list)


HARMLESS = ("commit", "commit", "commit", "replicate", "rotate", "purge", "fail_over", "read", "read", "read")
HARMFUL = ("lose_end", "reset", "promote", "keep_copy", "restore")


class World:
    """Two servers, of which one is the primary, and two readers of the primary.

    Args:
        seed: of all that happens.
    """

    def __init__(self, seed: int) -> None:
        self.chance, self.played = Random(seed), Played()
        self.now_us = 1_700_000_000 * _SECOND_US
        self._identities = count(1)
        mariadb = self.chance.random() < 0.6
        names = ("1", "2") if mariadb else tuple(f"00000000-0000-0000-0000-00000000000{n}" for n in (1, 2))
        bases = ("bin", self.chance.choice(("bin", "other")))
        self.primary, self.replica = (
            Server(name, base, self.now_us, mariadb=mariadb) for name, base in zip(names, bases, strict=True)
        )
        self._copies: list[Server] = []
        self._start_by: StartBy = self.chance.choice(("auto", "gtid"))
        self._readers = [Reader(self.primary), Reader(self.primary)]

    def commit(self) -> None:
        """Commit a transaction."""
        self.primary.commit(next(self._identities), self.now_us, self.chance)

    def replicate(self) -> None:
        """Let the replica catch up."""
        self.replica.replicate(self.primary, self.now_us, self.chance)

    def rotate(self) -> None:
        """Begin a new file."""
        self.now_us += _SECOND_US
        self.primary.rotate(self.now_us)

    def purge(self) -> None:
        """Let go of old files."""
        self.primary.purge()

    def fail_over(self) -> None:
        """Fail over to a replica that has everything, if it has."""
        self.replicate()
        if self.replica.history == self.primary.history:
            self.primary, self.replica = self.replica, self.primary

    def lose_end(self) -> None:
        """Lose the end of the primary's log."""
        self.primary.lose_end(self.now_us, self.chance)

    def reset(self) -> None:
        """Reset the primary's log.

        No copy is left: what a copy of MySQL has under a number may be older than what was read of a replica,
        and ADR 8 says that this is not noticed.
        """
        self.primary.reset(self.now_us)
        self._copies.clear()

    def promote(self) -> None:
        """Promote the replica, whatever it lacks; it may take the primary's id."""
        self.primary, self.replica = self.replica, self.primary
        if self.chance.random() < 0.5:
            self.primary.name = self.replica.name

    def keep_copy(self) -> None:
        """Keep a copy of the primary."""
        self._copies.append(copy.deepcopy(self.primary))

    def restore(self) -> None:
        """Replace the primary by a copy."""
        if self._copies:
            self.primary = self.chance.choice(self._copies).restored(self.now_us)

    def read(self) -> None:
        """Let the readers, or one of them, read from the primary, and ask that for what was left out."""
        server = self.primary
        readers = self.chance.choice((self._readers, self._readers, self._readers[:1], self._readers[1:]))
        stream = Stream(server, self._start_by, [reader.position for reader in readers])
        try:
            coming = stream.open()
        except DataError:
            self.played.refused += 1
            return
        if coming is None:
            self.played.unavailable += 1
            return
        self.played.read += 1
        for reader in readers:
            before = reader.position
            reader.take(server, coming, stream.base, self.chance)
            self._compare(reader, before)

    def _compare(self, reader: Reader, before: Position) -> None:
        server, after = self.primary, reader.position
        for file, each in server.transactions:
            here = after.server == server.name and file.name == after.file and each.end <= after.offset
            counted = after.gtid_set.holds(each.source, np.array([each.number]))[0]
            if (here or counted) and each.identity not in reader.delivered:
                self.played.left_out.append(f"{each} of {server.name}, read from {before} to {after}")


def play(seed: int, *, harmless: bool = False) -> Played:
    """Play the schedule of a seed.

    Args:
        seed: of all that happens.
        harmless: whether no number is ever given again.
    """
    world = World(seed)
    chance = world.chance
    for _ in range(chance.randrange(5, 40)):
        what = chance.choice(HARMLESS if harmless else (*HARMLESS, *HARMFUL))
        # A number that is given again within the five seconds by which clocks may differ is not noticed.
        world.now_us += chance.randrange(1, 400_000) + (what in HARMFUL) * 6 * _SECOND_US
        getattr(world, what)()
    return world.played
