"""Verification: reads all of a history, and says what is wrong: checksums, gaps, what the manifest says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from canal_group.binlog.archive.history import History
from canal_group.binlog.archive.manifest import FileEntry, State
from canal_group.merge.errors import CanalGroupError, SourceUnavailable
from canal_group.merge.values.gtids.gtid import parse_gtid_set
from canal_group.merge.values.position import file_order
from canal_group.merge.values.resets.reset import created_again


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of a file."""

    file: str
    #: empty: it is what was written
    wrong: str
    #: bytes of the binlog that were read, and its whole transactions
    size: int = 0
    transactions: int = 0


def verify(history: History) -> Iterator[Finding]:
    """Yield a finding for each file: every event and frame is read and checked."""
    before: FileEntry | None = None
    for entry in history.manifest.files:
        if entry.state is State.PRUNED:
            continue
        yield _finding(history, entry, before)
        before = entry


def _finding(history: History, entry: FileEntry, before: FileEntry | None) -> Finding:
    try:
        return check(history, entry, before)
    except SourceUnavailable:
        return Finding(history.where(entry), "")  # it has just been begun
    except CanalGroupError as error:
        return Finding(history.where(entry), str(error))


def check(history: History, entry: FileEntry, before: FileEntry | None = None) -> Finding:
    """Read all of a file, and return a finding.

    Args:
        history: whose file it is.
        entry: the file.
        before: the file before it; None: it is not compared.

    Raises:
        As `History.scan`.
    """
    scan = history.scan(entry)
    wrong = []
    if created_again(scan.created_s, entry.created_s):
        wrong.append(f"it was created at {scan.created_s}, and the manifest says {entry.created_s}")
    if entry.state is not State.OPEN:
        if (scan.offset, scan.sha256) != (entry.size, entry.sha256):
            wrong.append(f"it has {scan.offset:,} bytes with SHA-256 {scan.sha256}, not {entry.sha256}")
        if str(scan.gtids()) != entry.gtids:
            wrong.append(f"its GTIDs end with {scan.gtids()}, and the manifest says {entry.gtids}")
    if before is not None:
        (base, number), (its_base, its_number) = file_order(before.name), file_order(entry.name)
        if (its_base, its_number) != (base, number + 1):
            wrong.append(f"files are missing between {before.name} and it")
        elif before.state is not State.OPEN and not scan.gtids_before.contains(parse_gtid_set(before.gtids)):
            wrong.append(f"it begins after {scan.gtids_before}, and {before.name} ends with {before.gtids}")
    return Finding(history.where(entry), "; ".join(wrong), scan.offset, scan.transactions)
