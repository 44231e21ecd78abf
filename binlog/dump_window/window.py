"""Window: the part of a binlog that a dump server retains, and which positions it covers.

Rules:

1. Blocks are appended in the order in which the source sent them. The oldest ones are dropped as soon as all
   of them cost more than the limit, even if that leaves none.
2. A position is covered if it is where an event begins or ends, and everything after it is in the window or
   will be appended. A reader that begins there misses nothing, and gets nothing twice.
3. A position is never guessed: one of another history of the source, or inside of an event, is not covered.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from canal_group.binlog.dump_window.block import Block, split_at
from canal_group.merge.errors import UsageError
from canal_group.merge.values.position import file_order
from canal_group.merge.values.resets.reset import created_again

_DROPPED = Block("", 0, 0, b"")


class Uncovered(StrEnum):
    """Why a window does not cover a position."""

    #: it is before the window: a reader attaches when it has read so far
    OLDER = "older"
    #: it is after the window: a reader attaches when the dump server has read so far
    AHEAD = "ahead"
    #: it is not a position of the binlog that is in the window
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class WindowPosition:
    """A position in a window."""

    #: number of the block, counted from the first one that was ever appended
    number: int
    #: bytes of its packets before the position
    skip: int
    #: packets that a reader which begins here needs first
    description: bytes = b""


class Window:
    """The retained part of one dump; see the module's rules.

    Args:
        limit_bytes: limit of what all blocks cost, see `Block.cost`.
        file: file in which the dump began.
        offset: offset in `file` at which the dump began.
    """

    def __init__(self, limit_bytes: int, file: str, offset: int) -> None:
        self._limit_bytes = limit_bytes
        self._blocks: list[Block] = []
        #: what all blocks before each one have cost since the beginning
        self._costs: list[int] = []
        #: index of the first block that is retained, and the number of the block at index 0
        self._first, self._base = 0, 0
        self._cost = 0
        self._file, self._offset = file, offset
        #: description of the file at the end
        self._description = b""
        #: creation times of the retained files, seconds since 1970, by name; those that are known
        self._created: dict[str, int] = {}

    @property
    def first(self) -> int:
        """Number of the oldest retained block; `end` if there is none."""
        return self._base + self._first

    @property
    def end(self) -> int:
        """Number of the next block."""
        return self._base + len(self._blocks)

    @property
    def tip(self) -> tuple[str, int]:
        """File and offset of the end."""
        return self._file, self._offset

    @property
    def cost(self) -> int:
        """What the retained blocks cost, bytes."""
        return self._cost - self._cost_before(self.first)

    def append(self, block: Block, created_s: int = 0) -> None:
        """Add the next block, and drop the oldest ones beyond the limit.

        Args:
            block: it begins where the last one ended, or after events that the server left out, or in a later
                file.
            created_s: when its file was created, seconds since 1970, if it says so; 0: it does not.

        Raises:
            UsageError: it is of an earlier position: the binary logs were reset. Nothing was added.
        """
        self._require_later(block, created_s)
        if created_s:
            self._created[block.file] = created_s
        self._blocks.append(block)
        self._costs.append(self._cost)
        self._cost += block.cost
        self._file, self._offset = block.file, block.end
        self._description = block.next_description
        self._drop()

    def after(self, position: WindowPosition) -> int:
        """Return the cost of the retained blocks from the block of a position on, bytes."""
        return self._cost - self._cost_before(max(position.number, self.first))

    def blocks(self, number: int) -> Iterator[Block]:
        """Return the blocks from a number on, which must not be dropped yet."""
        assert number >= self.first, "the block is retained"
        index = number - self._base
        while index < len(self._blocks):
            yield self._blocks[index]
            index += 1

    def created_s(self, file: str) -> int:
        """Return when a file was created, seconds since 1970; 0: not known."""
        return self._created.get(file, 0)

    def find(self, file: str, offset: int, created_s: int = 0) -> WindowPosition | Uncovered:
        """Return where a reader begins that has read everything before a position.

        Args:
            file: file of the position.
            offset: offset of the position.
            created_s: when that file was created, seconds since 1970; 0: not known.
        """
        if created_again(self._created.get(file, 0), created_s):
            return Uncovered.UNKNOWN
        if (file, offset) == self.tip:
            return WindowPosition(self.end, 0, self._description)
        try:
            base, number = file_order(file)
        except UsageError:
            return Uncovered.UNKNOWN
        tip_base, tip_number = file_order(self._file)
        if base != tip_base:
            return Uncovered.UNKNOWN
        if (number, offset) > (tip_number, self._offset):
            return Uncovered.AHEAD
        return self._within(number, offset)

    def is_before(self, file: str, offset: int) -> bool:
        """Return whether the window ends before a position."""
        return self.find(file, offset) is Uncovered.AHEAD

    def _within(self, number: int, offset: int) -> WindowPosition | Uncovered:
        """Return the block and offset of a position that is not after the window."""
        oldest = self._blocks[self._first] if self.first < self.end else None
        if oldest is None or (number, offset) < (file_order(oldest.file)[1], oldest.begin):
            return Uncovered.OLDER

        def key(block: Block) -> tuple[int, int]:
            return file_order(block.file)[1], block.end

        # The first block that ends after the position: it begins a later file, or the position is in it.
        index = bisect_right(self._blocks, (number, offset), lo=self._first, key=key)
        if index > self._first and key(self._blocks[index - 1]) == (number, offset):
            # A reader that begins here needs no block without length, such as a ROTATE that opens the file.
            return WindowPosition(self._base + index, 0, self._blocks[index - 1].next_description)
        block = self._blocks[index]
        if file_order(block.file)[1] != number:
            return Uncovered.UNKNOWN  # beyond the end of its file
        skip = split_at(block, offset)
        return (
            Uncovered.UNKNOWN if skip is None else WindowPosition(self._base + index, skip, block.description)
        )

    def _require_later(self, block: Block, created_s: int) -> None:
        (base, number), (before_base, before) = file_order(block.file), file_order(self._file)
        earlier = base != before_base or (number, block.begin) < (before, self._offset)
        if earlier or block.end < block.begin:
            raise UsageError(
                f"The source continues at {block.file}:{block.begin} after {self._file}:{self._offset}.",
                hint="The binary logs were reset, or the stream is damaged.",
            )
        if created_again(self._created.get(block.file, 0), created_s):
            raise UsageError(f"The source created {block.file} again.", hint="The binary logs were reset.")

    def _cost_before(self, number: int) -> int:
        index = number - self._base
        return self._costs[index] if index < len(self._costs) else self._cost

    def _drop(self) -> None:
        while self._first < len(self._blocks) and self.cost > self._limit_bytes:
            self._blocks[self._first] = _DROPPED
            self._first += 1
        # Slots of dropped blocks stay in the list until they fill half of the list, so that a block is moved
        # once on average.
        if self._first > len(self._blocks) // 2:
            del self._blocks[: self._first]
            del self._costs[: self._first]
            self._base += self._first
            self._first = 0
            kept = {block.file for block in self._blocks} | {self._file}
            self._created = {file: each for file, each in self._created.items() if file in kept}
