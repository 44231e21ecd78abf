"""Draw a query's progress on the merged stream as a PNG: rows, binlog and lag by shard.

    .venv/bin/python examples/plot.py progress.jsonl progress.png

The progress is a file of JSON lines, such as `mirror.py --progress` writes: one `StreamingQueryProgress.json`
per micro-batch. Needs matplotlib: `pip install 'canal-group[examples]'`.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.dates as mdates
import matplotlib.pyplot as plt

#: shards that get a colour and a name: those with the greatest lag
NAMED = 10
#: a pause between two micro-batches up to this long counts as waiting for the trigger, seconds
TRIGGER_S = 1.0
_STYLE = {
    "figure.facecolor": "white",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "lines.linewidth": 1.6,
    "legend.frameon": False,
}


@dataclass(frozen=True)
class MicroBatch:
    """One micro-batch of a query."""

    #: UTC
    begin: datetime
    #: when it ended, UTC
    end: datetime
    rows: int
    #: by shard that had changes: bytes of binlog; if a new file began, those in the new file only
    read: dict[str, int]
    #: by shard that had changes: age of its newest commit when the micro-batch ended, seconds
    lag_s: dict[str, float]

    @classmethod
    def of(cls, progress: dict[str, Any]) -> MicroBatch:
        """Return the micro-batch of a query's progress, whose offsets are group positions."""
        (source,) = progress["sources"]
        begin = datetime.fromisoformat(progress["timestamp"]).astimezone(UTC)
        end = begin + timedelta(milliseconds=progress["batchDuration"])
        before, after = (_shards(source[name]) for name in ("startOffset", "endOffset"))
        read_bytes, lag_s = {}, {}
        for shard, position in after.items():
            start = before.get(shard, {"file": "", "offset": 0})
            same_file = start["file"] == position["file"]
            if not same_file or start["offset"] != position["offset"]:
                read_bytes[shard] = position["offset"] - (start["offset"] if same_file else 0)
                lag_s[shard] = end.timestamp() - position["commit_us"] / 1e6
        return cls(begin, end, progress["numInputRows"], read_bytes, lag_s)

    def after(self, before: MicroBatch) -> MicroBatch:
        """Return it with the end of the one before as its start, if it only waited for the trigger."""
        waited_s = (self.begin - before.end).total_seconds()
        return replace(self, begin=before.end) if waited_s <= max(self.seconds, TRIGGER_S) else self

    @property
    def seconds(self) -> float:
        """Duration, in seconds."""
        return (self.end - self.begin).total_seconds()


def _shards(offset: dict[str, Any] | None) -> dict[str, Any]:
    return offset["shards"] if offset else {}


def main() -> None:
    """Draw a progress file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("progress", type=Path, help="JSON lines")
    parser.add_argument("picture", type=Path, help="the PNG to write")
    options = parser.parse_args()
    progress = [json.loads(line) for line in options.progress.read_text().splitlines()]
    batches = [MicroBatch.of(each) for each in progress if each["numInputRows"]]
    if not batches:
        parser.exit(1, f"{options.progress} has no micro-batch with rows.\n")
    draw(batches, options.picture)
    rows = sum(each.rows for each in batches)
    print(f"{options.picture}: {len(batches)} micro-batches, {rows} rows")


def draw(batches: list[MicroBatch], picture: Path) -> None:
    """Draw micro-batches, which are in order of time."""
    batches = [*batches[:1], *(each.after(before) for before, each in pairwise(batches))]
    shards = sorted({shard for each in batches for shard in each.lag_s})
    worst = sorted(shards, key=lambda shard: -max(each.lag_s.get(shard, 0) for each in batches))
    labelled = [shard for shard in shards if shard in worst[:NAMED]]
    colours = dict(zip(labelled, mpl.color_sequences["tab10"], strict=False))
    with mpl.rc_context(_STYLE):
        figure, (rows, read, lag) = plt.subplots(3, sharex=True, figsize=(10, 8.4), layout="constrained")
        ends = [each.end for each in batches]
        rows.fill_between(
            *_steps(batches, [each.rows / each.seconds for each in batches]), color="#4c72b0", alpha=0.35
        )
        rows.plot(*_steps(batches, [each.rows / each.seconds for each in batches]), color="#4c72b0")
        rows.set(title="Rows handed to Spark, all shards", ylabel="rows / s", ylim=(0, None))
        for shard in [*(set(shards) - set(labelled)), *labelled]:
            look = {"color": colours.get(shard, "#bbbbbb"), "label": shard if shard in colours else None}
            rates = [each.read.get(shard, 0) / each.seconds / 1024 for each in batches]
            read.plot(*_steps(batches, rates), **look)
            seen = [(each.end, each.lag_s[shard]) for each in batches if shard in each.lag_s]
            lag.plot(*zip(*seen, strict=True), marker="o", markersize=3.5, **look)
        read.set(title="Binlog read, by shard", ylabel="KiB / s", ylim=(0, None))
        lag.set(
            title="Lag by shard: age of its newest commit when the micro-batch was done",
            ylabel="seconds",
            xlabel=f"time of day, UTC ({ends[0]:%Y-%m-%d})",
            ylim=(0, None),
        )
        lag.xaxis.set_major_formatter(mdates.DateFormatter("%H:%M:%S"))
        for axes in (rows, read, lag):
            axes.yaxis.set_major_formatter(mpl.ticker.StrMethodFormatter("{x:,g}"))
        others = f" ({len(shards) - len(labelled)} more in grey)" if len(shards) > len(labelled) else ""
        figure.legend(
            *read.get_legend_handles_labels(),
            title=f"shard{others}",
            loc="outside lower center",
            ncols=min(len(labelled), NAMED),
        )
        total = sum(each.rows for each in batches)
        figure.suptitle(
            f"canal-group in Spark: {total:,} rows in {len(batches):,} micro-batches", fontsize=14
        )
        figure.savefig(picture, dpi=130)
        plt.close(figure)


def _steps(batches: list[MicroBatch], rates: list[float]) -> tuple[list[datetime], list[float]]:
    """Return a line with each micro-batch's rate from its start to its end, and 0 between two."""
    times: list[datetime] = []
    heights: list[float] = []
    for each, rate in zip(batches, rates, strict=True):
        if times and times[-1] < each.begin:
            times += [times[-1], each.begin]
            heights += [0.0, 0.0]
        times += [each.begin, each.end]
        heights += [rate, rate]
    return times, heights


if __name__ == "__main__":
    main()
