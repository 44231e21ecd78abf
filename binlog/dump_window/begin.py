"""Begin: where the dump of a dump server begins."""

from __future__ import annotations

from collections.abc import Sequence

#: where the first event of a binlog file begins
_FILE_BEGIN = 4


def begin_at(
    requested: tuple[str, int], files: Sequence[tuple[str, int]], limit_bytes: int
) -> tuple[str, int]:
    """Return the file and offset at which a dump server begins.

    It begins near the end of the binlog: readers that are further behind read by themselves up to there, and
    nobody waits until the dump server has read what only one of them needs.

    Args:
        requested: position of the reader that starts the dump server: where an event begins or ends.
        files: the source's binlog files with their sizes, bytes, the oldest first; not empty.
        limit_bytes: limit of the window.

    Returns:
        What was requested, if half of the window reaches back to it; else the beginning of the last file,
        likewise; else the end.
    """
    near_bytes = limit_bytes // 2
    behind_bytes = 0
    for file, size in reversed(files):
        if file == requested[0]:
            behind_bytes += size - requested[1]
            if requested[1] <= size and behind_bytes <= near_bytes:
                return requested
            break
        behind_bytes += size
    file, size = files[-1]
    return file, _FILE_BEGIN if size <= near_bytes else size


def begin_archived(
    archived: tuple[str, int] | None,
    next_file: str | None,
    requested: str,
    files: Sequence[tuple[str, int]],
) -> tuple[str, int] | None:
    """Return the file and offset at which a dump into an archive begins.

    Args:
        archived: the archive's end; None: it has nothing of the server.
        next_file: a file of the source of which the archive has everything before it; None: no such file.
        requested: file of the reader that starts the dump server.
        files: as `begin_at` has them.

    Returns:
        The archive's end, or the beginning of the file after it, or of the requested one if there is nothing;
        None: the source does not have what follows the archive's end.
    """
    sizes = dict(files)
    if archived is None:
        return (requested if requested in sizes else files[0][0]), _FILE_BEGIN
    file, offset = archived
    if sizes.get(file, -1) >= offset:
        return archived
    return None if file in sizes or next_file is None else (next_file, _FILE_BEGIN)
