"""The status page: an instance's state for people, in 80 columns or without a limit.

In 80 columns a shard has its state, lag, frontier and position, and below them notes for the operator. If a
name or a position is too long for a table, these are printed below the shard's name. Nothing is cut: long
text continues on the next line. The wide page has every column, with one line for each shard.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from canal_group.merge.duration import duration
from canal_group.merge.printable import printable
from canal_group.merge.values.loss import Loss
from canal_group.merge.values.skips.skipped_event import SkippedEvent

_GAP = 2
_INDENT = 2


class _Shard(NamedTuple):
    """A shard's fields as text."""

    name: str
    source: str
    #: what its reader is doing
    state: str
    #: its role in the group, and anything unusual
    notes: str
    position: str
    acked: str
    frontier: str
    lag: str
    ring: str
    archive: str
    #: why nothing is archived now
    unarchived: str
    error: str


def print_status(state: dict[str, Any], *, wide: bool = False) -> None:
    """Print an instance's state for people.

    Args:
        state: as a gateway answers.
        wide: whether to print all columns, on lines of any length.
    """
    out = Console(highlight=False, markup=False, emoji=False, soft_wrap=wide)
    state = printable(state)
    group = state["group"]
    known = {shard["shard"]: shard for shard in group.get("shards", [])}
    shards = [_shard(shard, known.get(shard["shard"], {}), state["now_us"]) for shard in state["shards"]]
    _print_group(out, state["destination"], group)
    if group.get("file_error"):
        out.print(Text(f"still served with earlier settings: {group['file_error']}", "red"))
    (_print_wide if wide else _print_narrow)(out, shards)
    for client in group.get("clients", []):
        _print_client(out, client)


def clock(time_us: int | None) -> str:
    """Return a time of day in UTC, with milliseconds; "-" if there is none.

    Args:
        time_us: microseconds since 1970 UTC.
    """
    if not time_us or time_us >= 1 << 62:
        return "-"
    return datetime.fromtimestamp(time_us / 1e6, UTC).strftime("%H:%M:%S.%f")[:-3]


def _print_group(out: Console, destination: str, group: dict[str, Any]) -> None:
    if not group.get("active"):
        out.print(f"{destination}: {_why_not_served(group)}")
        return
    server = f"  active server {group['server']} (epoch {group['epoch']})"
    out.print(Text.assemble((destination, "bold"), server))
    out.print(
        f"watermark {clock(group['watermark_us'])}  late {group['late']}  future {group.get('future', 0)}"
    )
    order = group.get("order", {})
    if order.get("kind") == "id":
        passed = "-" if order["watermark_id"] is None else order["watermark_id"]
        out.print(f"ordered by id  watermark {passed}  ids within {order['commit_within_s']:g} s")
    if group.get("ddl") is not None:
        _print_ddl(out, group["ddl"])
    if group["held_by"] is not None:
        why = f" for {group['held_since_s']:.1f} s: {group['held_why']}"
        out.print(Text.assemble("held by shard ", (group["held_by"], "bold"), why))
    for full in group["full_rings"]:
        out.print(Text(full["why"], "red"))
    for each in map(SkippedEvent.from_dict, group.get("skipped_events", ())):
        out.print(Text(f"left out: {each}"))


def _print_ddl(out: Console, ddl: dict[str, Any]) -> None:
    missed = f"  missed {ddl['missed']}" if ddl["missed"] else ""
    out.print(
        f"DDL {ddl['rule']}  delivered {ddl['delivered']}  withheld {ddl['withheld']}"
        f"  waiting {ddl['waiting']}{missed}"
    )
    for each in ddl["statements"]:
        has = ", ".join(f"{shard} ({tables})" for shard, tables in each["has"].items())
        out.print(
            Text(
                f"{' ' * _INDENT}{each['op']} {each['table']} since {clock(each['since_us'])},"
                f" statement {each['statement']}, first at {each['first_at']}: {has} has it,"
                f" waits for {', '.join(each['waits_for']) or 'none'}"
            )
        )


def _why_not_served(group: dict[str, Any]) -> str:
    if group.get("stopped"):
        return f"not served: {group['stopped']}"
    if group.get("error") and not group.get("active_server"):
        return f"not served: {group['error']}"
    elsewhere = f"; {group['active_server']} is active" if group.get("active_server") else ""
    return f"not active on this server{elsewhere}. {group.get('error') or ''}".rstrip()


def _print_client(out: Console, client: dict[str, Any]) -> None:
    outstanding = ", ".join(f"{batch['batch_id']} ({batch['rows']} rows)" for batch in client["outstanding"])
    words = ", ".join(client["words"])
    holder = f" {client['holder']}" if client["holder"] else f" for {duration(client['away_s'])}"
    said = f"  {words}:{holder} (epoch {client['epoch']})  outstanding: {outstanding or 'none'}"
    out.print(Text.assemble("client ", (client["client_id"], "bold"), said))
    if client.get("replay"):
        out.print(Text(f"{' ' * _INDENT}{_replay(client['replay'])}"))
    if client.get("snapshot"):
        out.print(Text(f"{' ' * _INDENT}{client['snapshot']['words']}"))
    if client.get("unread"):
        _print_unread(out, client["unread"])
    if client["error"]:
        out.print(Text(f"{' ' * _INDENT}error: {client['error']}", "red"))
    for loss in map(Loss.from_dict, client.get("losses", ())):
        when = datetime.fromtimestamp(loss.found_us / 1e6, UTC).isoformat(" ", "seconds")
        out.print(Text(f"{' ' * _INDENT}lost {loss}, at {when}", "red"))


def _print_unread(out: Console, unread: dict[str, Any]) -> None:
    reasons = [f"not read: {table}: {why}" for table, why in unread["reasons"].items()]
    for line in filter(None, (unread["words"], *reasons, unread["more"])):
        out.print(Text(f"{' ' * _INDENT}{line}", "red"))


def _replay(replay: dict[str, Any]) -> str:
    """Return how far a replay is, and when it will have caught up if it goes on like that."""
    behind_s, left_s = replay["behind_s"], replay["left_s"]
    behind = "" if behind_s is None else f", {duration(behind_s)} behind"
    left = "" if left_s is None else f", about {duration(left_s)} left"
    return f"replay: {replay['state']} for {duration(replay['since_s'])}{behind}{left}"


def _print_wide(out: Console, shards: Sequence[_Shard]) -> None:
    head = ("shard", "source", "state", "position", "acked", "frontier (UTC)", "lag", "ring", "archive")
    rows = [
        (
            shard.name,
            shard.source,
            ", ".join(filter(None, (shard.state, shard.notes))),
            shard.position,
            shard.acked,
            shard.frontier,
            shard.lag,
            shard.ring,
            shard.archive,
        )
        for shard in shards
    ]
    first, *lines = _aligned([head, *rows])
    out.print(Text(first, "bold"))
    for shard, line in zip(shards, lines, strict=True):
        out.print(line)
        for said in _wrong(shard):
            out.print(Text(f"{' ' * _INDENT}{said}", "red"))


def _print_narrow(out: Console, shards: Sequence[_Shard]) -> None:
    head = ("shard", "state", "lag", "frontier UTC", "position")
    rows = [(shard.name, shard.state, shard.lag, shard.frontier, shard.position) for shard in shards]
    first, *lines = _aligned([head, *rows])
    as_table = all(cell_len(line) <= out.width for line in (first, *lines))
    if as_table:
        out.print(Text(first, "bold"))
    for shard, line in zip(shards, lines, strict=True):
        if as_table:
            out.print(line)
        else:
            out.print(Text(shard.name, "bold"))
            _print_below(out, f"{shard.state}  lag {shard.lag}  frontier {shard.frontier} UTC")
            _print_below(out, f"position {shard.position}")
        if shard.notes:
            _print_below(out, shard.notes)
        for said in _wrong(shard):
            _print_below(out, said, "red")


def _wrong(shard: _Shard) -> list[str]:
    said = (("error", shard.error), ("not archived", shard.unarchived))
    return [f"{what}: {why}" for what, why in said if why]


def _print_below(out: Console, line: str, style: str = "") -> None:
    out.print(Padding.indent(Text(line, style), _INDENT))


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines with aligned columns."""
    widths = [max(map(cell_len, column)) + _GAP for column in zip(*rows, strict=True)]
    return [
        "".join(
            cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def _shard(shard: dict[str, Any], merged: dict[str, Any], now_us: int) -> _Shard:
    """Return a shard's line.

    Args:
        shard: the state that the shard reports.
        merged: the state that its group reports; empty if it reports none.
        now_us: time of the gateway's clock, microseconds.
    """
    frontier_us, ring, archive = merged.get("frontier_us"), shard.get("ring"), shard.get("archive")
    return _Shard(
        name=shard["shard"],
        source=shard.get("source", "-"),
        state=shard["words"][0],
        notes=", ".join(
            filter(None, (*_notes(shard["words"][1:], merged), shard.get("held_back"), shard.get("reading")))
        ),
        position=shard.get("position") or "-",
        acked=merged.get("acked_position") or "-",
        frontier=clock(frontier_us),
        lag=f"{(now_us + shard.get('skew_us', 0) - frontier_us) / 1e6:.1f} s" if frontier_us else "-",
        ring=_ring(ring) if ring else "-",
        archive=_archive(archive) if archive and archive.get("file") else "-",
        unarchived=(archive.get("error") or "") if archive else "",
        error=shard.get("error") or merged.get("error") or "",
    )


def _ring(ring: dict[str, Any]) -> str:
    full = f", full of {ring['full_of']}" if ring["full"] else ""
    return f"{ring['put'] - ring['ack']} headers, {ring['bytes'] / 2**20:.1f} MiB{full}"


def _archive(archive: dict[str, Any]) -> str:
    """Return the durable end of an archive, its size and oldest time, and how far it is behind."""
    oldest = datetime.fromtimestamp(archive["oldest_us"] / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")
    behind_s = archive["behind_s"]
    behind = "" if behind_s is None else f", {behind_s:.1f} s behind"
    return f"{archive['file']}:{archive['offset']}, {archive['bytes'] / 2**20:.1f} MiB since {oldest}{behind}"


def _notes(states: Sequence[str], merged: dict[str, Any]) -> list[str]:
    """Return states, that of an operator's policy with its age, and counts of mistimed transactions."""
    policy = merged.get("policy")
    words = [
        f"{each} set {merged['policy_since_s']:.0f} s ago" if each == policy else each for each in states
    ]
    if merged.get("late"):
        words.append(f"late: {merged['late']} ({merged['late_rows']} rows)")
    if merged.get("future"):
        words.append(f"stamped ahead of its clock: {merged['future']}")
    return words
