"""The ticket by which a gateway asks a shard for rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from actors.store.rows import Wanted
from merge.values.chunk import TableName


@dataclass(frozen=True, slots=True)
class RowTicket:
    """Rows of the sequences `begin <= sequence < end` of one shard."""

    epoch: int
    generation: int
    begin: int
    end: int
    wanted: Wanted = field(default_factory=Wanted)

    def to_dict(self) -> dict[str, Any]:
        """Return the ticket as a JSON object; `from_dict` reverses it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """Return the ticket that `to_dict` described.

        Raises:
            KeyError, TypeError, ValueError: it does not describe a ticket.
        """
        wanted = value["wanted"]
        table, columns = _texts(wanted["table"]), _texts(wanted["columns"])
        return cls(
            epoch=int(value["epoch"]),
            generation=int(value["generation"]),
            begin=int(value["begin"]),
            end=int(value["end"]),
            wanted=Wanted(
                None if table is None else TableName(*table),
                bool(wanted["before"]),
                columns,
                str(wanted["table_filter"]),
                bool(wanted.get("schema_only")),
            ),
        )


def _texts(said: Any) -> tuple[str, ...] | None:
    if said is None:
        return None
    if not isinstance(said, list | tuple) or not all(isinstance(one, str) for one in said):
        raise TypeError(f"{said!r} is not a list of names")
    return tuple(said)
