"""What the command line prints: changes as JSON lines or tables, the state as tables."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table


def print_lines(rows: pa.Table) -> None:
    """Print an envelope table as JSON objects, one a line."""
    for row in rows.to_pylist():
        for image in ("key", "before", "after"):
            row[image] = dict(row[image]) if row[image] is not None else None
        sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def print_table(rows: pa.Table) -> None:
    """Print an envelope table for people."""
    table = Table("seq", "commit (UTC)", "shard", "table", "op", "row", box=None, header_style="bold")
    for row in rows.to_pylist():
        image = row["sql"] or _changes(row["before"], row["after"])
        name = f"{row['schema']}.{row['table']}"
        table.add_row(str(row["seq"]), _clock(row["commit_us"]), row["shard"], name, row["op"], image)
    Console(highlight=False).print(table)


def print_status(state: dict[str, Any]) -> None:
    """Print an instance's state for people."""
    out = Console(highlight=False)
    group, now_us = state["group"], state["now_us"]
    if not group.get("active"):
        out.print(f"{state['destination']}: {_why_not_served(group)}")
    else:
        out.print(
            f"[bold]{state['destination']}[/bold]  active server {group['server']} (epoch {group['epoch']})"
            f"  watermark {_clock(group['watermark_us'])}  late {group['late']}"
            f"  future {group.get('future', 0)}"
        )
        if group["held_by"] is not None:
            out.print(
                f"held by shard [bold]{group['held_by']}[/bold] for {group['held_since_s']:.1f} s:"
                f" {group['held_why']}"
            )
    out.print(_shards(state["shards"], group.get("shards", []), now_us))
    for client in group.get("clients", []):
        outstanding = ", ".join(
            f"{batch['batch_id']} ({batch['rows']} rows)" for batch in client["outstanding"]
        )
        out.print(
            f"client [bold]{client['client_id']}[/bold]  consumer {client['holder'] or 'none'}"
            f"{', dropped: it was away too long' if client.get('dropped') else ''}"
            f"{', set aside: ' + client['error'] if client.get('error') else ''}"
            f" (epoch {client['epoch']})  outstanding: {outstanding or 'none'}"
        )


def _why_not_served(group: dict[str, Any]) -> str:
    if group.get("stopped"):
        return f"not served: {group['stopped']}"
    elsewhere = f"; {group['active_server']} is" if group.get("active_server") else ""
    return f"not active at this server{elsewhere}. {group.get('error', '')}".rstrip()


def _shards(shards: list[dict[str, Any]], grouped: list[dict[str, Any]], now_us: int) -> Table:
    known = {shard["shard"]: shard for shard in grouped}
    table = Table("shard", "source", "state", "position", "acked", "frontier (UTC)", "lag", "ring", box=None)
    for shard in shards:
        merged = known.get(shard["shard"], {})
        frontier_us = merged.get("frontier_us")
        lag = f"{(now_us + shard.get('skew_us', 0) - frontier_us) / 1e6:.1f} s" if frontier_us else "-"
        ring = shard.get("ring", {})
        table.add_row(
            shard["shard"],
            shard.get("source", "-"),
            _state(shard, merged),
            shard.get("position") or "-",
            merged.get("acked_position") or "-",
            _clock(frontier_us),
            lag,
            f"{ring['put'] - ring['ack']} headers, {ring['bytes'] / 2**20:.1f} MiB" if ring else "-",
        )
        if shard.get("error") or merged.get("error"):
            table.add_row("", "", f"[red]{shard.get('error') or merged.get('error')}[/red]")
    return table


def _state(shard: dict[str, Any], merged: dict[str, Any]) -> str:
    """Return what a shard does, what it is to the group, and whether the group waits for it."""
    words = [shard["state"]]
    if merged.get("role", "member") != "member":
        words.append(merged["role"])
    if merged.get("catching_up"):
        words.append("catching up")
    elif merged.get("skipped"):
        words.append("skipped")
    if merged.get("policy"):
        words.append(f"({merged['policy']} given {merged['policy_since_s']:.0f} s ago)")
    if merged.get("late"):
        words.append(f"late: {merged['late']} ({merged['late_rows']} rows)")
    if merged.get("future"):
        words.append(f"stamped ahead of its clock: {merged['future']}")
    return ", ".join(words)


def _changes(before: Any, after: Any) -> str:
    if before is None or after is None:
        return ", ".join(f"{name}={value}" for name, value in dict(after or before or {}).items())
    old, new = dict(before), dict(after)
    changed = [(name, value) for name, value in new.items() if name not in old or old[name] != value]
    return ", ".join(
        f"{name}={old[name]} -> {value}" if name in old else f"{name}=? -> {value}" for name, value in changed
    )


def _clock(time_us: int | None) -> str:
    if not time_us or time_us >= 1 << 62:
        return "-"
    return datetime.fromtimestamp(time_us / 1e6, UTC).strftime("%H:%M:%S.%f")[:-3]
