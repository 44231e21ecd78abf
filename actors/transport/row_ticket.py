"""The ticket by which a gateway asks a shard for rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from canal_group.actors.store.rows import Selection
from canal_group.merge.values.chunk import TableName
from canal_group.merge.whole import whole


@dataclass(frozen=True, slots=True)
class RowTicket:
    """Rows of the sequences `begin <= sequence < end` of one shard."""

    epoch: int
    generation: int
    begin: int
    end: int
    selection: Selection = field(default_factory=Selection)

    def to_dict(self) -> dict[str, Any]:
        """Return the ticket as a JSON object; `from_dict` reverses it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """Return the ticket that `to_dict` described.

        Raises:
            KeyError, TypeError, ValueError: it does not describe a ticket.
        """
        selection = value["selection"]
        table, columns = _texts(selection["table"]), _texts(selection["columns"])
        return cls(
            epoch=whole(value["epoch"]),
            generation=whole(value["generation"]),
            begin=whole(value["begin"]),
            end=whole(value["end"]),
            selection=Selection(
                None if table is None else TableName(*table),
                bool(selection["before"]),
                columns,
                str(selection["table_filter"]),
                bool(selection.get("schema_only")),
            ),
        )


def _texts(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
        raise TypeError(f"{value!r} is not a list of names")
    return tuple(value)
