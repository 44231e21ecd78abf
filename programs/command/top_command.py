"""`canal-group top`: an instance's state in a terminal, again every second."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from canal_group.merge.errors import RetryableError
from canal_group.merge.printable import escaped, printable
from canal_group.operator import Operator
from canal_group.programs.command.operator_command import operated
from canal_group.programs.command.status_page import clock


@operated()
def top(
    operator: Operator,
    every_s: Annotated[float, typer.Option("--every", min=0.2, help="Seconds between two looks.")] = 1.0,
    times: Annotated[int, typer.Option(min=0, help="Stop after so many looks; 0: never.")] = 0,
) -> None:
    """Show shards, rates, lag and clients of a running instance until Ctrl-C."""
    out = Console(highlight=False, markup=False, emoji=False)
    try:
        if out.is_terminal:
            with Live(console=out, screen=True, auto_refresh=False) as live:
                for frame in _frames(operator, every_s, times):
                    live.update(frame, refresh=True)
        else:
            for frame in _frames(operator, every_s, times):
                out.print(frame)
    except KeyboardInterrupt:
        pass  # That is how it is left.


def _frames(operator: Operator, every_s: float, times: int) -> Iterator[RenderableType]:
    """Yield what is to be shown, again and again; a server that does not answer is asked again."""
    before: dict[str, Any] | None = None
    looks = 0
    while True:
        try:
            state = operator.status()
        except RetryableError as error:
            yield Text(escaped(str(error)), "red")
        else:
            yield frame(state, before)
            before = state
        looks += 1
        if times and looks >= times:
            return
        time.sleep(every_s)


def frame(state: dict[str, Any], before: dict[str, Any] | None) -> RenderableType:
    """Return a screen.

    Args:
        state: as `canal-group status --json` prints it.
        before: the state that was shown last, for rates; None: no state was shown.
    """
    state = printable(state)
    group = state["group"]
    return Group(_head(state, group), _shards(state, before), _clients(state, before))


def _head(state: dict[str, Any], group: dict[str, Any]) -> Text:
    lines = Text.assemble((state["destination"], "bold"), f"  {clock(state['now_us'])} UTC  ")
    if not group.get("active"):
        why = group.get("stopped") or group.get("error") or f"{group.get('active_server')} is active"
        return lines.append(f"not served here: {why}", "red")
    lines.append(f"active on {group['server']}", "green")
    lines.append(f"  epoch {group['epoch']}  watermark {clock(group['watermark_us'])}  late {group['late']}")
    if group["held_by"] is not None:
        lines.append(
            f"\nheld by shard {group['held_by']} for {group['held_since_s']:.1f} s: {group['held_why']}"
        )
    for full in group["full_rings"]:
        lines.append(f"\n{full['why']}", "red")
    return lines


def _shards(state: dict[str, Any], before: dict[str, Any] | None) -> Table:
    merged = {shard["shard"]: shard for shard in state["group"].get("shards", ())}
    earlier = {shard["shard"]: shard for shard in before["shards"]} if before is not None else {}
    table = _table("shard", "state", "lag s", "p99 s", "rows/s", "MiB/s", "ring", "position")
    for shard in state["shards"]:
        name, group = shard["shard"], merged.get(shard["shard"], {})
        counters, ring = shard.get("counters"), shard.get("ring")
        then = earlier.get(name, {}).get("counters")
        frontier_us = group.get("frontier_us")
        lag_us = state["now_us"] + shard.get("skew_us", 0) - frontier_us if frontier_us else None
        table.add_row(
            name,
            ", ".join(shard["words"]),
            _number(None if lag_us is None else max(lag_us, 0) / 1e6),
            _number(counters["delay_s"]["p99"] if counters else None),
            _number(_rate(state, before, _rows(counters), _rows(then))),
            _number(_rate(state, before, _read(counters), _read(then)), 2**20),
            _filled(ring) if ring else "-",
            shard.get("position") or "-",
        )
        if shard.get("error"):
            table.add_row("", Text(shard["error"], "red"))
    return table


def _clients(state: dict[str, Any], before: dict[str, Any] | None) -> Table:
    earlier = {client["client_id"]: client for client in before["group"].get("clients", ())} if before else {}
    table = _table("client", "consumer", "outstanding", "oldest s", "rows/s", "cursor UTC")
    for client in state["group"].get("clients", ()):
        then = earlier.get(client["client_id"])
        outstanding = client["outstanding"]
        acked = client["totals"]["acked_rows"]
        table.add_row(
            client["client_id"],
            f"{', '.join(client['words'])}{': ' + client['holder'] if client['holder'] else ''}",
            f"{len(outstanding)} ({sum(batch['rows'] for batch in outstanding)} rows)",
            _number(outstanding[0]["age_s"] if outstanding else None),
            _number(_rate(state, before, acked, then["totals"]["acked_rows"] if then else None)),
            clock(client["cursor_commit_us"]),
        )
        if client.get("snapshot"):
            table.add_row("", client["snapshot"]["words"])
        if client.get("unread"):
            table.add_row("", Text(client["unread"]["words"], "red"))
        if client["error"]:
            table.add_row("", Text(client["error"], "red"))
    return table


def _table(*head: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in head:
        table.add_column(name, justify="right" if name.endswith(("s", "ring")) else "left", overflow="fold")
    return table


def _filled(ring: dict[str, Any]) -> str:
    """Return how full a ring is, and of what: that of headers and bytes of which more is used."""
    used = {"headers": (ring["put"] - ring["ack"]) / ring["headers_max"]}
    if ring["bytes_max"]:
        used["bytes"] = ring["bytes"] / ring["bytes_max"]
    most = max(used, key=lambda what: used[what])
    return f"{used[most]:.0%} {most}"


def _rows(counters: dict[str, Any] | None) -> int | None:
    return None if counters is None else sum(counters["rows"].values())


def _read(counters: dict[str, Any] | None) -> int | None:
    return None if counters is None else int(counters["read_bytes"])


def _rate(
    state: dict[str, Any], before: dict[str, Any] | None, now: int | None, then: int | None
) -> float | None:
    """Return a growth per second; None: it is not known, for instance because a process began anew."""
    if before is None or now is None or then is None or now < then:
        return None
    passed_us = int(state["now_us"]) - int(before["now_us"])
    return (now - then) * 1e6 / passed_us if passed_us > 0 else None


def _number(value: float | None, unit: float = 1) -> str:
    if value is None:
        return "-"
    scaled = value / unit
    return f"{scaled:,.0f}" if scaled >= 100 else f"{scaled:.2f}"  # noqa: PLR2004  three digits are enough
