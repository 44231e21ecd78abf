"""Binlog files: binlogs and relay logs on a disk, read by the same decoder as those of a server.

A file is four bytes of magic and then one event after another; the files of one server are numbered in
order. Files are read in blocks, from which the fast path takes the usual events. Memory holds one block (or
one larger event) and the chunk that is being gathered.

How a file may end:

- with a ROTATE or STOP event, or after any other whole event between transactions: the next file follows;
- inside an event or a transaction, while its format description says that it is in use: the server is still
  writing it, or crashed. The incomplete part did not happen, or not yet; `tails` lists it. An event whose
  length contradicts its offset is an error nevertheless, see `file_tail`;
- inside an event or a transaction otherwise: it was cut off. That is an error, raised after everything before
  it was yielded.

A relay log holds the events of its replica's source. Its offsets are its own, and its transactions may
continue in the next file.

Layout: "Binary log file" and "Relay log" in MySQL's internals manual.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from io import SEEK_END, RawIOBase
from pathlib import Path
from typing import NoReturn

from canal_group.binlog.columns.columns import Losses
from canal_group.binlog.columns.table_lookup import TableLookup
from canal_group.binlog.files.file_tail import FileTail, file_tail
from canal_group.binlog.formats.binlog_file import BinlogFile
from canal_group.binlog.formats.event_types import EventType
from canal_group.binlog.formats.events import CHECKSUM_NONE, IN_USE_FLAG, MAGIC
from canal_group.binlog.grammar.binlog_decoder import BinlogDecoder
from canal_group.binlog.grammar.chunk_builder import SEARCH_LIMITS, ChunkBuilder, Limits
from canal_group.binlog.grammar.reading import Reading
from canal_group.binlog.grammar.skips import Skips
from canal_group.binlog.grammar.tables import Select
from canal_group.binlog.native.file_events import FileBuffer
from canal_group.merge.errors import CorruptEvent, DataError, UnsupportedEvent, UsageError
from canal_group.merge.values.chunk import Chunk
from canal_group.merge.values.position import Position, file_order

#: how a file encrypted by MySQL's `binlog_encryption` begins
_ENCRYPTED_MAGIC = b"\xfdbin"
_GZIP_MAGIC = b"\x1f\x8b"


def files_in(folder: Path) -> list[Path]:
    """Return the binlog files of a folder in their server's order.

    A name counts if at least one of its numbered files begins like a binlog. All numbered files of that name
    are returned; one that is not a binlog raises an error when it is read. Other files are left out.

    Raises:
        UsageError: there are none, or they have more than one name: two logs, or two servers.
    """
    numbered = [path for path in folder.iterdir() if path.suffix[1:].isdecimal() and path.is_file()]
    bases = sorted({path.stem for path in numbered if _magic(path) in (MAGIC, _ENCRYPTED_MAGIC)})
    files = sorted((path for path in numbered if path.stem in bases), key=lambda path: file_order(path.name))
    require_one_name(str(folder), bases)
    return files


def require_one_name(where: str, names: Sequence[str]) -> None:
    """Return if the binlogs in a folder have one name.

    Args:
        where: the folder or pattern, for the message.
        names: of the binlogs there, without their numbers.

    Raises:
        UsageError: there are none, or they have several; `found` is how many.
    """
    if len(names) == 1:
        return
    content = f"binlogs of {len(names)} names: {', '.join(names)}" if names else "no binlogs"
    raise UsageError(
        f"{where} holds {content}.",
        hint="Expected binlog files of one name, such as mysql-bin.000001 and mysql-bin.000002.",
        found=len(names),
    )


def gap_in(files: Sequence[BinlogFile], begin: int = 0) -> int | None:
    """Return the index of the first file after `begin` whose number is not the next one; None if all are.

    Args:
        files: in the order of their numbers.
        begin: index of the first file to compare.
    """
    numbers = [file_order(path.name)[1] for path in files]
    gaps = (index for index in range(begin + 1, len(files)) if numbers[index] != numbers[index - 1] + 1)
    return next(gaps, None)


def _magic(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(len(MAGIC))


class BinlogFiles:
    """Reads files as one stream of chunks. Iterate it once.

    Args:
        files: in the order in which they were written.
        select: which tables to decode, under which name.
        limits: when a chunk is full.
        lookup: answers what table maps do not say, see `unnamed_tables`.
        start: where to begin; do not pass files before it. Default: at the first file's beginning.
        count_packed: whether `events` also counts the events inside transaction payloads; this unpacks each
            payload once more.
        verbatim: whether to hand on as text the statements whose rows are not in the files (`binlog_format`
            STATEMENT or MIXED, or an XA COMMIT), and a ROLLBACK of rows that are in them. Else they are
            refused.
        original_times: see `Decoding`.
        skips: the events to leave out; None: none.
        shard: the shard that reads the files, for errors; empty: none.
    """

    def __init__(
        self,
        files: Sequence[BinlogFile],
        select: Select,
        limits: Limits = SEARCH_LIMITS,
        *,
        lookup: TableLookup | None = None,
        start: Position | None = None,
        count_packed: bool = False,
        verbatim: bool = False,
        original_times: bool = False,
        skips: Skips | None = None,
        shard: str = "",
    ) -> None:
        #: how many events of each type were read one by one
        self._unusual: Counter[int] = Counter()
        self._count_packed = count_packed
        self._tails: list[FileTail] = []
        #: number of bytes of the files that were read
        self.read_bytes = 0
        self._files = files
        self._builder = ChunkBuilder(limits)
        self._builder.fast_path.original = original_times
        first = Position(files[0].name if files else "", len(MAGIC))
        self._decoder = BinlogDecoder(
            shard,
            start or first,
            select,
            self._builder,
            checksum=CHECKSUM_NONE,
            lookup=lookup,
            names_needed=False,
            verbatim=verbatim,
            skips=skips,
        )

    @property
    def events(self) -> Counter[int]:
        """How many events of each type were read."""
        return self._unusual + Counter(self._decoder.run_counts())

    @property
    def reading(self) -> Reading:
        """Which event is being read, see `BinlogDecoder.reading`."""
        return self._decoder.reading

    @property
    def prepared(self) -> int:
        """How many XA transactions are prepared: their rows come when they commit, in a later file."""
        return self._decoder.prepared

    @property
    def tails(self) -> Sequence[FileTail]:
        """The incomplete ends of the files that were read and are marked in use."""
        return self._tails

    @property
    def created(self) -> Mapping[str, int]:
        """Creation times of the files that were read, see `BinlogDecoder.created`."""
        return self._decoder.created

    @property
    def whole_seconds(self) -> bool:
        """Whether the server of the file that is being read stamped commits in whole seconds only."""
        return self._decoder.whole_seconds

    @property
    def losses(self) -> Losses:
        """What was lost or changed in decoding since the beginning."""
        return self._builder.losses

    def __iter__(self) -> Iterator[Chunk]:
        """Yield what the files hold.

        Raises:
            CorruptEvent, UnsupportedEvent: with file and offset; every whole transaction before was yielded.
            PositionPurged: an XA transaction commits, but none of the files holds its rows.
            UsageError: a file cannot be opened.
        """
        in_use = False
        try:
            for path in self._files:
                in_use = yield from self._read_file(path)
            if self._decoder.in_transaction and not in_use:
                self._refuse(CorruptEvent("The last file ends inside a transaction."))
        except DataError:
            yield from self._flush_whole()
            raise
        yield from self._flush_whole()

    def _flush_whole(self) -> Iterator[Chunk]:
        """Yield what is gathered; drop an open transaction unless a part of it was handed over."""
        if self._builder.in_transaction:
            self._builder.discard()
        yield from self._flush()

    def _read_file(self, path: BinlogFile) -> Generator[Chunk, None, bool]:
        """Read one file; return whether it is in use."""
        decoder = self._decoder
        decoder.open_file(path.name)
        try:
            file = path.open("rb", 0)
        except OSError as error:
            raise UsageError(f"{path} cannot be opened: {error.strerror}.") from error
        with file:
            self._check_magic(file)
            in_use = False
            arrived = FileBuffer()
            while True:
                decoder.run(arrived)
                event = self._next_event(arrived, file)
                if event is None:
                    break
                if event:
                    in_use |= self._feed(event)
                    yield from self._flush_full()
                    while decoder.go_on():
                        yield from self._flush_full()
            if in_use:
                self._add_tail(file)
            elif decoder.offset < file.seek(0, SEEK_END):
                self._refuse(CorruptEvent("The file ends inside an event: it was cut off."))
        if decoder.in_transaction and not (in_use or decoder.relay_log):
            self._refuse(CorruptEvent("The file ends inside a transaction: it was cut off."))
        return in_use

    def _add_tail(self, file: RawIOBase) -> None:
        decoder = self._decoder
        try:
            tail = file_tail(
                file,
                decoder.file,
                decoder.offset,
                relay_log=decoder.relay_log,
                in_transaction=decoder.in_transaction,
            )
        except CorruptEvent as error:
            raise decoder.located(error, "an event") from error
        if tail is not None:
            self._tails.append(tail)

    def _feed(self, event: bytes) -> bool:
        """Read an event; return whether it marks its file as in use."""
        decoder = self._decoder
        kind = decoder.feed(event)
        self._unusual[kind] += 1
        if self._count_packed and kind == EventType.TRANSACTION_PAYLOAD:
            self._unusual.update(decoder.packed_types(event))
        first = kind == EventType.FORMAT_DESCRIPTION and decoder.offset == len(MAGIC) + len(event)
        return first and bool(event[17] & IN_USE_FLAG)

    def _check_magic(self, file: RawIOBase) -> None:
        magic = file.read(len(MAGIC))
        if magic == MAGIC:
            return
        error: DataError = CorruptEvent("The file is not a binlog: its first bytes are not a binlog's.")
        if magic == _ENCRYPTED_MAGIC:
            error = UnsupportedEvent(
                "The file is encrypted.", hint="Read it from its server, which sends events decrypted."
            )
        elif magic.startswith(_GZIP_MAGIC):
            error = UnsupportedEvent("The file is compressed with gzip.", hint="Unpack it with gunzip.")
        raise self._decoder.located(error, "beginning of file")

    def _next_event(self, arrived: FileBuffer, file: RawIOBase) -> bytes | None:
        """Return the next event; b"" if a block was read instead, None if no whole event is left."""
        try:
            event = arrived.take()
        except ValueError as error:
            self._refuse(CorruptEvent(f"The file is damaged: there cannot be {error}."))
        if event is not None:
            return event
        arrived.make_room()
        size = file.readinto(arrived)
        if not size:
            return None
        arrived.received(size)
        self.read_bytes += size
        return b""

    def _refuse(self, error: DataError) -> NoReturn:
        raise self._decoder.located(error, "end of file")

    def _flush_full(self) -> Iterator[Chunk]:
        if self._builder.full:
            yield from self._flush()

    def _flush(self) -> Iterator[Chunk]:
        chunk = self._decoder.close_chunk()
        if chunk is not None:
            yield chunk
