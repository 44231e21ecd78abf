"""`canal-group trace`: where a transaction, or a row's last changes, are from source to cursors."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from canal_group.merge.calls.answers import RowTrace, TransactionTrace
from canal_group.operator import Operator, calls
from canal_group.programs.command.operator_command import operated
from canal_group.programs.command.options.byte_size import parse_size
from canal_group.programs.command.options.exit_code import ExitCode
from canal_group.programs.command.output import echo


@operated(calls.Trace, calls.TraceKey)
def trace(
    operator: Operator,
    gtid: Annotated[
        str | None, typer.Option("--gtid", help="The transaction's GTID: 0-1-42, or uuid:42.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", help="A row, whose last changes are looked for: TABLE:KEY, shop.orders:42."),
    ] = None,
    within: Annotated[
        str, typer.Option("--within", help="With --key: how much of each binlog's end is searched.")
    ] = "64MiB",
    shard: Annotated[
        str | None,
        typer.Option("--shard", help="With --key: the only one that is searched. With --gtid: whose it is."),
    ] = None,
) -> None:
    """Say where a transaction is: not read, waiting to be merged, in a batch, or acknowledged.

    The exit code is 4 if no shard has read it, or if no change of the row was found.
    """
    if (gtid is None) == (key is None):
        raise typer.BadParameter("Give --gtid or --key.")
    if gtid is not None:
        traced = operator.ask(calls.Trace(gtid, shard))
        said = lines(traced, operator.status())
        is_known = traced["found"] is not None or bool(traced["read_by"])
    else:
        changes = operator.ask(calls.TraceKey(str(key), parse_size(within), shard))
        said = key_lines(changes, within, operator.status())
        is_known = bool(changes["changes"])
    for line in said:
        echo(line)
    if not is_known:
        raise typer.Exit(ExitCode.NOT_FOUND)


def key_lines(found: RowTrace, within: str, state: dict[str, Any]) -> list[str]:
    """Return the known changes of a row, the oldest first.

    Args:
        found: the answer to `TraceKey`.
        within: how much of each binlog was searched, as text.
        state: of the instance, for what it waits for.
    """
    said, key = [], found["key"]
    for change in found["changes"]:
        when = _time(change["commit_us"])
        gtid = change["gtid"] or "a transaction without GTID, which cannot be followed"
        where = f"on shard {change['shard']} at {change['file']}:{change['offset']}"
        said.append(f"{key}: {change['op']} {when} {where} by {gtid}")
        if not change["kept"]:
            said.append("  It is left out by filter.tables: no client gets it.")
        elif change["trace"] is not None:
            said += [f"  {line}" for line in lines(change["trace"], state)]
    if not said:
        said.append(f"{key} was not changed in the last {within} of any binlog that was searched.")
    for name, part in found["searched"].items():
        if part["unknown"]:
            said.append(
                f"{part['unknown']} changes on shard {name} could not be compared: the table's primary key "
                "is not known there."
            )
    return said


def lines(found: TransactionTrace, state: dict[str, Any]) -> list[str]:
    """Return the facts, a sentence a line.

    Args:
        found: the answer to `Trace`.
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
        when = _time(found["commit_us"])
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


def _time(commit_us: int) -> str:
    return datetime.fromtimestamp(commit_us / 1e6, UTC).isoformat(timespec="milliseconds")
