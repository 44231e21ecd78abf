"""Touched rows: what events did to the rows of a table, as far as a page that they overlap must know.

An event is delivered whatever becomes of a page. So a row of a page is kept only if it is as new as the
stream:

    no event touched it             it is kept
    an image that says all of it,   it is dropped: consumers have the row, or know that it is gone
    an INSERT, a DELETE, or its
    key became another one
    images that lack columns        they are laid over it, in order: it is as it was after the last of them
    an INSERT that lacks columns    it is dropped, and read again in a later page, for their defaults
    an image that cannot be laid    it is dropped, and read again: laying a difference over a row that has it
    over                            already would change the row twice

A row that gets another key by an image that lacks columns is read again in any case, also if no page has it:
its old key may belong to what was not read yet, and its new key to what was.

Keys are compared for equality of their values as the binlog has them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Generic, TypeVar

#: a row's values in the columns of the key
RowKey = tuple[Hashable, ...]
ImageT = TypeVar("ImageT")


class Fate(Enum):
    """What becomes of a row of a page."""

    KEPT = auto()
    DROPPED = auto()
    OVERLAID = auto()
    #: dropped, and read again
    AGAIN = auto()


@dataclass(slots=True)
class Touched(Generic[ImageT]):
    """Rows that events touched; see the module's rules. `ImageT` is an image that lacks columns."""

    #: keys of rows that consumers have whole, or whose deletion consumers know
    settled: set[RowKey] = field(default_factory=set)
    #: keys in `settled` of rows that an INSERT without all columns has made
    incomplete: set[RowKey] = field(default_factory=set)
    #: new keys of rows whose key changed by an image that lacks columns
    moved: set[RowKey] = field(default_factory=set)
    #: rows changed by an image that cannot be laid over
    unsure: set[RowKey] = field(default_factory=set)
    #: images to lay over a row, in the order of the events
    images: dict[RowKey, list[ImageT]] = field(default_factory=dict)

    def __len__(self) -> int:
        """Count the kept keys and images, for a bound."""
        images = sum(map(len, self.images.values()))
        return len(self.settled) + len(self.incomplete) + len(self.moved) + len(self.unsure) + images

    def settle(self, keys: Iterable[RowKey]) -> None:
        """Note rows that were inserted or deleted, or are in an image that says all of them."""
        self.settled.update(keys)

    def update(self, before: RowKey, after: RowKey, image: ImageT | None) -> None:
        """Note an UPDATE whose image after lacks columns.

        Args:
            before: the key before it.
            after: the key after it.
            image: the image after; None: it cannot be laid over a row.
        """
        if before != after:
            self.settled.add(before)
            self.moved.add(after)
        elif image is None:
            self.unsure.add(after)
        else:
            self.images.setdefault(after, []).append(image)

    def add(self, later: Touched[ImageT]) -> None:
        """Add what later events did."""
        self.settled |= later.settled
        self.incomplete |= later.incomplete
        self.moved |= later.moved
        self.unsure |= later.unsure
        for key, images in later.images.items():
            self.images.setdefault(key, []).extend(images)

    def fate(self, key: RowKey) -> Fate:
        """Return the fate of a page's row."""
        if key in self.incomplete:
            return Fate.AGAIN
        if key in self.settled or key in self.moved:
            return Fate.DROPPED
        if key in self.unsure:
            return Fate.AGAIN
        return Fate.OVERLAID if key in self.images else Fate.KEPT

    def keys(self) -> set[RowKey]:
        """Return the keys of all touched rows."""
        return self.settled | self.moved | self.unsure | self.images.keys()
