"""The lines of `canal-group archive list`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from canal_group.binlog.archive.manifest import FileEntry, Manifest, State

_SECOND_US = 1_000_000


def history_lines(name: str, manifest: Manifest) -> Iterator[str]:
    """Yield a line for a history, and one for each of its files."""
    files = manifest.files
    size, stored = sum(each.size for each in files), sum(each.stored for each in files)
    part = f", {stored / size:.0%} of it stored" if size else ""
    yield f"{name}: {len(files)} files, {size:,} bytes{part}"
    for each in files:
        yield f"  {_file_line(each)}"


def _file_line(entry: FileEntry) -> str:
    parts = [f"{entry.name}  {entry.state}, {entry.form}, {entry.size:,} bytes"]
    if entry.first_us:
        parts.append(f"{_shown(entry.first_us)} to {_shown(entry.latest_us)}")
    if entry.gtids and entry.state is not State.OPEN:
        parts.append(f"up to {entry.gtids}")
    if entry.damaged:
        parts.append(f"damaged: {', '.join(f'{begin:,} to {end:,}' for begin, end in entry.damaged)}")
    return "; ".join(parts)


def _shown(time_us: int) -> str:
    return f"{datetime.fromtimestamp(time_us / _SECOND_US, UTC):%Y-%m-%dT%H:%M:%SZ}"
