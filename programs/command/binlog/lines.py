"""Binlog lines: print the transactions of binlog files for people or as JSON.

A transaction may have several parts: its header is printed with the first one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from canal_group.merge.values.chunk import Chunk
from canal_group.merge.values.header import Flag, gtid_text
from canal_group.programs.command.binlog.changes import Change
from canal_group.programs.command.json_line import json_line


class Lines(Protocol):
    """Prints transactions, in order."""

    def of(self, chunk: Chunk, header: Any, changes: Sequence[Change]) -> Iterator[str]:
        """Yield the lines of a transaction, or of a part of one.

        Args:
            chunk: the chunk that holds it.
            header: its record of `canal_group.merge.values.header.HEADER`.
            changes: its changes, in order.
        """


class JsonLines:
    """Prints a JSON object for each change."""

    def of(self, chunk: Chunk, header: Any, changes: Sequence[Change]) -> Iterator[str]:
        """Yield a line for each change; see `Lines`."""
        position = {
            "file": chunk.names[int(header["file"])],
            "pos": int(header["begin_offset"]),
            "gtid": _gtid(chunk, header),
        }
        for change in changes:
            shown: dict[str, Any] = {
                **position,
                "schema": change.name.schema,
                "table": change.name.table,
                "op": change.op,
                "before": change.before,
                "after": change.after,
            }
            if change.sql is not None:
                shown |= {"sql": change.sql, "ddl_schema": change.ddl_schema}
            yield json_line(shown)


class TextLines:
    """Prints a header for each transaction, with the number of its changes, and below it the changes.

    If a transaction has several parts, the number of its changes is printed at its end.
    """

    def __init__(self) -> None:
        #: changes of the last transaction, so far
        self._changes = 0

    def of(self, chunk: Chunk, header: Any, changes: Sequence[Change]) -> Iterator[str]:
        """Yield the lines of a transaction, or of a part of one; see `Lines`."""
        flags, count = Flag(int(header["flags"])), int(header["rows"])
        begins, ends = Flag.BEGIN in flags, Flag.END in flags
        self._changes = count if begins else self._changes + count
        if begins:
            yield _head(chunk, header) + (f"  {count} changes" if ends else "")
        for change in changes:
            images = [json_line(image) for image in (change.before, change.after) if image is not None]
            yield f"    {change.op} {change.name}  {change.sql or ' -> '.join(images)}"
        if ends and not begins:
            yield f"    {self._changes} changes in this transaction"


def _head(chunk: Chunk, header: Any) -> str:
    commit = datetime.fromtimestamp(int(header["commit_us"]) / 1_000_000, UTC)
    file, begin = chunk.names[int(header["file"])], int(header["begin_offset"])
    return f"{file}:{begin}  {commit:%Y-%m-%d %H:%M:%S.%f}  {_gtid(chunk, header) or 'no gtid'}"


def _gtid(chunk: Chunk, header: Any) -> str:
    return gtid_text(chunk.names[int(header["gtid_source"])], int(header["gtid_number"]))
