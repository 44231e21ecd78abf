"""Identity: whether what a server has under the numbers of a position is what was read.

A number is not an identity. A server that lost the end of its binlog, that was reset, or that took the server
id of another one, gives GTIDs again: by their numbers its new transactions seem to be read. So on every
connection the last transaction before the position is looked for, before anything is handed over:

- in the file of the position, if the server has that: the file has to be of the same creation and reach to
  the position, and the transaction has to begin where it began, with its GTID and its commit time;
- else by its GTID, which has to have its commit time. MariaDB and MySQL replicate that; it is whole seconds
  on MariaDB. On MySQL the time of the first commit is compared. A position that was read from a replica may
  hold the replica's time instead: then the first commit is not later than that, but for what clocks differ.

A server that has purged the transaction, or never logged it, cannot be compared. No transaction that it
still has is left out then on the word of a number: it is read if all that it has is new, else refused.

A position without its last transaction is not compared: before the first transaction of a new stream, and
after GTIDs that an operator chose. A stream begins at the oldest of several positions; those further on are
compared as well, because their files or GTIDs decide what is left out for their readers.
"""

from __future__ import annotations

import contextlib
import logging
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NoReturn, Protocol

import numpy as np

from canal_group.binlog.formats.events import MAGIC
from canal_group.binlog.server.dump.dump_request import OFFSET_MAX
from canal_group.binlog.server.source import ServerFacts, SourceAddress
from canal_group.binlog.server.starts.logged import Logged
from canal_group.binlog.server.starts.start import both_sets
from canal_group.merge.errors import DataError, PositionRefused, SourceUnfit
from canal_group.merge.values.gtids.gtid import GtidSet, MariaDbGtidSet, parse_gtid_set
from canal_group.merge.values.position import Position
from canal_group.merge.values.resets.last_transaction import LastTransaction
from canal_group.merge.values.resets.reset import Absence, absence, created_again

_log = logging.getLogger(__name__)

_SECOND_US = 1_000_000
#: greatest time that is shown: cursors come from clients, and may hold any number
_TIME_MAX_US = 2**62
#: by how much the clocks of two servers may differ where the time of one is compared with that of the other
_CLOCKS_US = 5 * _SECOND_US
_HINT = (
    "Compare the tables of the range with the source, and load again what differs. Then move the client ids "
    "to a position of this server (canal-group rewind), or read a server that has what was read."
)


class LoggedFile(Protocol):
    """The transactions of a file from an offset on, up to what the server has now."""

    def created(self) -> int:
        """Return when the file was created, seconds since 1970."""

    def __iter__(self) -> Iterator[Logged]:
        """Yield the transactions."""


class SourceLog(Protocol):
    """The binlog of one server, and what it has executed. Each call may raise SourceUnavailable."""

    def sizes(self) -> Mapping[str, int]:
        """Return the bytes of its files by name, the oldest first."""

    def gtids_before(self, file: str) -> GtidSet:
        """Return the GTIDs before a file."""

    def executed(self) -> GtidSet:
        """Return the GTIDs of the transactions that it has."""

    def read(self, file: str, offset: int) -> AbstractContextManager[LoggedFile]:
        """Open a file at an offset.

        Raises:
            DataError: it does not have that, which it may also say when the file is read.
        """


@dataclass(frozen=True, slots=True)
class Identity:
    """Compares a position with one server.

    Args:
        address: the server.
        facts: what it reports about itself.
        log: the binlog of the server, and the GTIDs that the server has executed.
        position: where a stream continues on it.
    """

    address: SourceAddress
    facts: ServerFacts
    log: SourceLog
    position: Position

    def require(self, *, by_gtid: bool) -> None:
        """Return if the server's transactions before the position are those that were read.

        Args:
            by_gtid: whether the stream is requested by GTID; else the server has sent the description of the
                position's file, and accepted its offset.

        Raises:
            PositionRefused: they are not, or it cannot be known; the error has the range in doubt.
            SourceUnavailable: the server does not answer.
        """
        position, last = self.position, self.position.last
        if not by_gtid:
            if self._last_here is not None:
                self._require_offset()
            self._require_open()
            return
        if position.server == self.facts.identity:
            sizes = self.log.sizes()
            if position.file in sizes:
                self._require_reached(sizes)
                self._require_offset()
                self._require_open()
                return
        if position.rows_into_transaction:
            self._refuse(f"has no {position.file}, and the position is inside a transaction of it")
        if last is not None and last.gtid:
            self._require_elsewhere(last)

    def require_further(self, require_contained: Callable[[], None]) -> None:
        """Return if the server has what was read up to the position, which is after that of the stream.

        Its files decide what a reader at the position has, if they are of the position's server and have its
        base name. Else GTIDs do, and then the server has to have all of them.

        Args:
            require_contained: raises unless the server has executed all of the position's GTIDs.

        Raises:
            PositionRefused: as for `require`.
            SourceUnavailable: the server does not answer.
        """
        position, sizes = self.position, self.log.sizes()
        missing = absence(position.file, next(iter(sizes)))
        if not position.is_of(self.facts.identity) or missing is Absence.UNKNOWN:
            same_kind = isinstance(position.gtid_set, MariaDbGtidSet) == self.facts.mariadb
            if position.last is not None and position.last.gtid and same_kind:
                require_contained()
                self._require_elsewhere(position.last)
        elif position.file in sizes:
            self._require_reached(sizes)
            self._require_offset()
            self._require_open()
        elif missing is Absence.RESET:
            self._refuse(f"has no {position.file}, though it has files from before it")

    def require_end(self) -> None:
        """Return unless the server has lost the end of the position's file.

        Raises:
            PositionRefused: the file is shorter than the position.
        """
        sizes = self.log.sizes()
        if self.position.is_of(self.facts.identity) and self.position.file in sizes:
            self._require_reached(sizes)

    # ---- in the file of the position -------------------------------------------------------------------

    @property
    def _last_here(self) -> LastTransaction | None:
        """The last transaction, if it begins in the file of the position."""
        position, last = self.position, self.position.last
        if last is None or (last.server, last.file) != (position.server, position.file):
            return None
        return last

    def _require_reached(self, sizes: Mapping[str, int]) -> None:
        file, offset = self.position.file, self.position.offset
        size = sizes[file]
        if size >= offset:
            return
        later = list(sizes)[list(sizes).index(file) + 1 :]
        kept = self.log.gtids_before(later[0]) if later else None
        after = f", which are the transactions after {kept}" if kept else ""
        self._refuse(
            f"has lost the end of {file}: it has {size} bytes, and {offset} were read",
            f"{file}:{size} to {offset}{after}",
        )

    def _require_offset(self) -> None:
        """Return if the file was created when the position says, and has its last transaction."""
        position, last = self.position, self._last_here
        offset = position.offset if last is None else last.begin_offset
        if offset > OFFSET_MAX:
            return
        with self.log.read(position.file, offset) as logged, self._named():
            created_s = logged.created()
            if created_again(position.created_s, created_s):
                times = (_time(each * _SECOND_US) for each in (created_s, position.created_s))
                self._refuse(
                    f"has a {position.file} that was created at {' and not at '.join(times)}: the binary "
                    "logs were reset, or it is another server with the same id"
                )
            if last is None:
                return
            found = next(iter(logged), None)
        if found is None or found.gtid != last.gtid or last.commit_us not in found[2:4]:
            self._refuse(f"has {_shown(found)} at {last.file}:{last.begin_offset}, not {_told(last)}")

    def _require_open(self) -> None:
        """Return if the transaction begins at the position of which rows were read before it."""
        position = self.position
        if not position.rows_into_transaction or position.offset > OFFSET_MAX:
            return
        with self.log.read(position.file, position.offset) as logged, self._named():
            if next(iter(logged), None) is None:
                self._refuse(
                    f"has no transaction at {position.file}:{position.offset}, of which the first "
                    f"{position.rows_into_transaction} rows were read",
                    f"the rows that were read of {position}",
                )

    # ---- by GTID ---------------------------------------------------------------------------------------

    def _require_elsewhere(self, last: LastTransaction) -> None:
        """Return if the server has the transaction under its GTID, or leaves none out because of it."""
        files, wanted = list(self.log.sizes()), parse_gtid_set(last.gtid)
        begin = bisect_left(files, True, key=lambda file: self.log.gtids_before(file).contains(wanted))
        if not begin:
            oldest = self.log.gtids_before(files[0])
            if not oldest.contains(self.position.gtid_set):
                self._refuse(f"has purged {_told(last)}, and still has others that are counted as read")
            self._warn(last, f"it has purged the transactions up to {oldest}")
            return
        numbers: dict[str, list[int]] = defaultdict(list)
        with self.log.read(files[begin - 1], len(MAGIC)) as logged:
            for found in logged:
                if found.gtid == last.gtid:
                    if not self._same(last, found):
                        self._refuse(f"has {_shown(found)}, not {_told(last)}")
                    return
                numbers[found.source].append(found.number)
        gtids = self.position.gtid_set
        if any(gtids.holds(name, np.array(each)).any() for name, each in numbers.items()):
            self._refuse(f"has not logged {_told(last)}, and has others that are counted as read")
        self._warn(last, "it has not logged it")

    def _same(self, last: LastTransaction, found: Logged) -> bool:
        """Return whether a transaction of the same GTID has the time of the one that was read."""
        if found.original_us == last.commit_us:
            return True
        first = self.facts.mariadb or found.source.partition(":")[0] == last.server
        return not first and found.original_us <= last.commit_us + _CLOCKS_US

    def _warn(self, last: LastTransaction, why: str) -> None:
        _log.warning(
            "%s cannot be compared with %s, because %s: the stream continues with what it has after %s",
            _told(last),
            self.address.location,
            why,
            self.position.gtid_set,
            extra={"shard": self.address.name},
        )

    # ---- both ------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Turn a server's own refusal of a file and offset into ours."""
        try:
            yield
        except DataError as error:
            if isinstance(error, PositionRefused | SourceUnfit):
                raise
            self._refuse(
                f"does not have the transaction before {self.position}, which was read: {error.message}"
            )

    def _refuse(self, what: str, doubt: str = "") -> NoReturn:
        """Raise the refusal.

        Args:
            what: what the server has instead, as the rest of a sentence.
            doubt: which transactions are in doubt; empty: all up to the position.
        """
        position = self.position
        executed = self.log.executed()
        last = position.last
        doubt = doubt or f"the transactions up to {last.gtid if last and last.gtid else position}"
        raise PositionRefused(
            f"The source of shard {self.address.name} at {self.address} {what}. In doubt are {doubt}: "
            "what was read of them may not be on this server, and what it has instead was not read. "
            f"{both_sets(executed, position.gtid_set)} The position is {position}.",
            hint=_HINT,
            shard=self.address.name,
            file=position.file,
            offset=position.offset,
            executed=str(executed),
            gtid_set=str(position.gtid_set),
            in_doubt=doubt,
            refused=position.to_json(),
        )


def _told(last: LastTransaction) -> str:
    return f"{last.gtid or 'the transaction'} of {_time(last.commit_us)}, which was read"


def _shown(found: Logged | None) -> str:
    return "no transaction" if found is None else f"{found.gtid or 'one'} of {_time(found.original_us)}"


def _time(time_us: int) -> str:
    return f"{np.datetime64(min(time_us, _TIME_MAX_US), 'us')}Z"
