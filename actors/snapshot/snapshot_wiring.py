"""Make the parts of a lane's snapshot; where its pages are, and which folders of pages nobody needs any more.

<folder of the archive>/snapshots/<destination>/<shard>/<id of the snapshot>/<identity of the server>/
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

from canal_group.actors.ports import Host
from canal_group.actors.process.durable import make_folder
from canal_group.actors.snapshot.lane_snapshot import SnapshotParts
from canal_group.actors.snapshot.load_limit import LoadLimit
from canal_group.actors.snapshot.page_workers import PageSource, PageWorkers
from canal_group.actors.snapshot.shard_snapshot import ShardSnapshot
from canal_group.binlog.archive.forms.key import NO_KEYS, read_keys
from canal_group.binlog.server.source import SourceAddress
from canal_group.conf.stream_settings import FilterSettings, SnapshotSettings
from canal_group.merge.errors import SourceUnfit
from canal_group.merge.file_name import file_name
from canal_group.merge.snapshot.cursor import SnapshotCursor
from canal_group.merge.values.position import Position

#: the folder of all snapshots beside the histories of an archive
SNAPSHOTS: Final = "snapshots"
#: how long pages are kept of a snapshot that nobody reads, seconds
UNUSED_S: Final = 7 * 86_400
#: pages of one table that may wait for the stream, for each connection that reads the table
_AHEAD: Final = 6

_log = logging.getLogger(__name__)


def snapshot_parts(
    settings: SnapshotSettings, rules: FilterSettings, pages: PageSource, position: Position, host: Host
) -> SnapshotParts:
    """Return the parts of the snapshot of a lane.

    Args:
        settings: how pages are read.
        rules: apply to them.
        pages: where they come from.
        position: where the lane begins, with a cursor of a snapshot.
        host: of the shard.

    Raises:
        SourceUnfit: its pages cannot be kept.
        UsageError: the cursor is none.
        ConfigError: the archive's key cannot be read.
    """
    shard, options, root = pages.shard, pages.address.archive, _folder(pages.address)
    cursor = SnapshotCursor.from_json(position.snapshot or "")
    if root is None or options is None:
        raise SourceUnfit(
            f"Shard {shard} has no archive, in which the pages of a snapshot are kept.",
            hint="Give the instance `archive`, or subscribe without a snapshot.",
            shard=shard,
        )
    folder = root / file_name(cursor.id)
    try:
        make_folder(folder)
        os.utime(folder)
    except OSError as error:
        raise SourceUnfit(
            f"The folder {folder} of a snapshot's pages cannot be used: {error.strerror or error}.",
            hint="It has to be writable for the server, like the archive that it is in.",
            shard=shard,
        ) from error
    keys = NO_KEYS if options.key_file is None else read_keys(Path(options.key_file))
    limit = LoadLimit(settings.rows_per_s, settings.load_limits, host)

    def start_workers(snapshot: ShardSnapshot, cursor: SnapshotCursor) -> PageWorkers:
        return PageWorkers(pages, snapshot, cursor, settings.workers, limit, host)

    start, pages_max = replace(position, snapshot=None), _AHEAD * settings.workers
    named = hashlib.sha256(rules.model_dump_json().encode()).hexdigest()
    return SnapshotParts(shard, cursor, start, folder, keys, named, pages_max, start_workers, host)


def remove_unused(address: SourceAddress) -> None:
    """Remove the pages of a shard's snapshots that nobody has read for a long time."""
    root = _folder(address)
    if root is None or not root.is_dir():
        return
    before_s = time.time() - UNUSED_S
    for folder in root.iterdir():
        try:
            times_s = [each.stat().st_mtime for each in (folder, *folder.iterdir())]
            if max(times_s) < before_s:
                shutil.rmtree(folder)
                _log.info(
                    "pages of snapshot %s are removed: nobody has read them for %d days",
                    folder.name,
                    UNUSED_S // 86_400,
                    extra={"shard": address.name},
                )
        except OSError as error:
            _log.warning("pages are not removed: %s", error, extra={"shard": address.name})


def _folder(address: SourceAddress) -> Path | None:
    if address.archive is None:
        return None
    return Path(address.archive.folder) / SNAPSHOTS / file_name(address.destination) / file_name(address.name)
