"""`canal-group trace`: where one transaction is, from its source to the clients' cursors."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from canal_group.command.operator_command import operated
from canal_group.operator import Operator


@operated
def trace(
    operator: Operator,
    gtid: Annotated[str, typer.Option("--gtid", help="The transaction's GTID: 0-1-42, or uuid:42.")],
) -> None:
    """Say where a transaction is: not read, waiting to be merged, in a batch, or acknowledged."""
    for line in lines(operator.trace(gtid), operator.status()):
        typer.echo(line)


def lines(found: dict[str, Any], state: dict[str, Any]) -> list[str]:
    """Return what is known, a sentence a line.

    Args:
        found: what `Operator.trace` returns.
        state: of the instance, for what it waits for.
    """
    gtid, group = found["gtid"], state["group"]
    if found["found"] is None:
        by = ", ".join(found["read_by"])
        said = [
            f"{gtid} was read by {by}; the group does not hold it: every client id has passed it, or it has "
            "no row of a kept table."
            if by
            else f"{gtid} was not read by any shard yet."
        ]
    else:
        when = datetime.fromtimestamp(found["commit_us"] / 1e6, UTC).isoformat(timespec="milliseconds")
        part = "" if found["whole"] else ", of which only a part has come"
        where = f"on shard {found['shard']} at {found['position']}"
        said = [f"{gtid} was committed {when} {where}: {found['rows']} rows{part}."]
        if found["found"] == "waiting":
            by = f" It waits for shard {group['held_by']}: {group['held_why']}." if group["held_by"] else ""
            said.append(f"It waits to be merged.{by}")
        else:
            said.append("It is merged.")
    for client in found["clients"]:
        batch = f" in batch {client['batch_id']}" if "batch_id" in client else ""
        said.append(f"client {client['client_id']}: {client['state']}{batch}")
    return said
