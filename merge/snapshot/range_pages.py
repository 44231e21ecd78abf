"""Pages of an offset range: it has those that it had when its end was noted, or it is not given again.

Its end says how far tables were read with its pages. A lane that does not have them on its disk selects pages
anew, in another order and perhaps as many rows: those that the range had before would come to nobody.
"""

from __future__ import annotations

from canal_group.merge.errors import DataError
from canal_group.merge.snapshot.cursor import SnapshotCursor
from canal_group.merge.values.position import GroupPosition, Position


def check_pages(start: GroupPosition, until: GroupPosition, end: GroupPosition) -> None:
    """Return if a lane that is known at an end of an offset range has selected its last pages.

    Args:
        start: where it begins.
        until: where it ends, as noted when it was first read.
        end: where it ends now that it is read again.

    Raises:
        DataError: another lane has.
    """
    for shard, position in end.shards.items():
        lanes = {_lane_of(each.shards.get(shard)) for each in (start, until)}
        if position.snapshot is not None and _lane_of(position) not in lanes:
            raise DataError(
                f"The offset range has pages of shard {shard} that were selected anew, and would lack rows of"
                " those that it had.",
                hint="The pages beside the archive are gone, or an operator has changed what is read. Start"
                " again from the cursor.",
                shard=shard,
            )


def _lane_of(position: Position | None) -> str:
    """Return the name of the lane that selected the last page before a position; empty: there is none."""
    text = None if position is None else position.snapshot
    return SnapshotCursor.from_json(text).selected_by if text else ""
