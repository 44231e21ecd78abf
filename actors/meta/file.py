"""A group's store in a folder: a file for each value of a destination, and one for its epoch.

    shop@epoch.json             {"epoch": 7}
    shop@cursors@1001.json      {"bytes": 114, "crc32": 2774138411}
                                then the value, and what continues it

Rules:
- a file is replaced as a whole: a temporary file is written, flushed to the disk and renamed, and the folder
  is flushed. After a crash the file holds the old value or the new one;
- what continues a value is added at the end of its file. What a crash has left of a line was never answered:
  it is not part of the value;
- a damaged file is an error. Starting over silently would lose or repeat data;
- no name of a destination or a key has the @ that is between them.
"""

from __future__ import annotations

import fcntl
import json
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from canal_group.actors.ports import Key, Kind, damaged
from canal_group.actors.process.durable import append_lines, make_folder, open_lock, remove_file, replace_file
from canal_group.conf.server_settings import FILES_DESTINATION_MAX
from canal_group.merge.errors import ConfigError, CoordinatorUnavailable
from canal_group.merge.values.epoch import refuse_older
from canal_group.merge.well_known import NAME
from canal_group.merge.whole import whole

#: bytes of a file's first line
_HEADER_MAX = 128


class FileStore:
    """Keeps values in files; they survive a restart and a loss of power.

    Guarantees: a reader sees the last complete write; writes of several processes on one machine do not
    interleave; a write with an epoch older than the newest one changes nothing. Guarantees nothing across
    machines.

    Implements `canal_group.actors.ports.EpochStore`.

    Args:
        destination: name of the destination, with which the files' names begin.
        folder: their folder; created if missing.

    Raises:
        ConfigError: the destination's name cannot begin a file's, or the folder cannot be created.
    """

    def __init__(self, destination: str, folder: Path) -> None:
        if not NAME.fullmatch(destination) or len(destination) > FILES_DESTINATION_MAX:
            raise ConfigError(
                f"{destination!r} cannot begin the name of a file.",
                hint=f"Use up to {FILES_DESTINATION_MAX} letters, digits, dots, hyphens and underscores.",
            )
        self._folder, self._destination = folder, destination
        self._epoch_file = folder / f"{destination}@epoch.json"
        try:
            make_folder(folder)
        except OSError as error:
            raise ConfigError(f"The folder {folder} cannot be created ({error.strerror}).") from error

    def claim(self, epoch: int) -> None:
        """Refuse every epoch older than `epoch` from now on, also after a restart."""
        with self._under(epoch, str(self._epoch_file)):
            pass

    def names(self, kind: Kind, epoch: int) -> list[str]:
        """Return the names of a kind's keys, in order."""
        begin, end = self._stem(kind), ".json"
        with self._under(epoch, kind.name):
            try:
                # Not by `glob`, which takes a folder that cannot be read for an empty one.
                files = [file.name for file in self._folder.iterdir()]
            except OSError as error:
                raise ConfigError(f"{self._folder} cannot be read ({error.strerror}).") from error
        matching = (name for name in files if name.startswith(begin) and name.endswith(end))
        return sorted(name.removeprefix(begin).removesuffix(end) for name in matching)

    def get(self, key: Key, epoch: int) -> str | None:
        """Return the stored value, or None."""
        file = self._file(key)
        with self._under(epoch, str(key)):
            try:
                data = file.read_bytes()
            except FileNotFoundError:
                return None
            except OSError as error:
                raise ConfigError(f"{file} cannot be read ({error.strerror}).") from error
        try:
            return _value(data)
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise damaged(str(file), key.kind, f"{type(error).__name__}: {error}") from error

    def put(self, key: Key, text: str, epoch: int, *, may_wait: bool = False) -> None:  # noqa: ARG002
        """Write a value; it is durable when this returns."""
        file, data = self._file(key), text.encode()
        header = json.dumps({"bytes": len(data), "crc32": zlib.crc32(data)})
        with self._under(epoch, str(key)), _writes(file):
            replace_file(file, f"{header}\n{text}")

    def append(self, key: Key, text: str, epoch: int) -> None:
        """Continue a value; it is durable when this returns."""
        file = self._file(key)
        with self._under(epoch, str(key)), _writes(file):
            try:
                _check_whole(file)
                append_lines(file, text)
            except FileNotFoundError as error:
                raise damaged(str(file), key.kind, "it is missing, and was to be continued") from error
            except (KeyError, TypeError, ValueError, RecursionError) as error:
                raise damaged(str(file), key.kind, f"{type(error).__name__}: {error}") from error

    def delete(self, key: Key, epoch: int) -> None:
        """Remove the stored value, if any."""
        file = self._file(key)
        with self._under(epoch, str(key)), _writes(file):
            remove_file(file)

    def where(self, key: Key) -> str:
        """Return the path of a value's file."""
        return str(self._file(key))

    def flush(self, epoch: int) -> None:
        """Do nothing: a value is durable when `put` returns."""

    def close(self) -> None:
        """Do nothing: whatever was written is kept."""

    # ---- inside

    def _stem(self, kind: Kind) -> str:
        return f"{self._destination}@{kind.name}@"

    def _file(self, key: Key) -> Path:
        return self._folder / f"{self._stem(key.kind)}{key.name}.json"

    @contextmanager
    def _under(self, epoch: int, what: str) -> Iterator[None]:
        """Exclude other writers, after the epoch was checked, and written if it is new."""
        with _locked(self._epoch_file):
            seen = self._seen()
            refuse_older(epoch, seen, what)
            if epoch != seen:
                with _writes(self._epoch_file):
                    replace_file(self._epoch_file, json.dumps({"epoch": epoch}) + "\n")
            yield

    def _seen(self) -> int:
        """Return the newest epoch that has been here; 0: there is no file."""
        file = self._epoch_file
        try:
            return whole(json.loads(file.read_bytes())["epoch"])
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise ConfigError(f"{file} cannot be read ({error.strerror}).") from error
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise ConfigError(
                f"{file} does not hold an epoch ({type(error).__name__}: {error}).",
                hint="Restore it from a backup, or remove it while no server of the destination runs.",
            ) from error


def _value(data: bytes) -> str:
    """Return the value that a file holds.

    Raises:
        KeyError, TypeError, ValueError, RecursionError: it holds none.
    """
    header, _, value = data.partition(b"\n")
    written = json.loads(header)
    size = whole(written["bytes"])
    if len(value) < size or zlib.crc32(value[:size]) != whole(written["crc32"]):
        raise ValueError("it is cut off, or was changed")
    return value[: max(size, value.rfind(b"\n") + 1)].decode()


def _check_whole(file: Path) -> None:
    """Return if a file holds all that was put into it; what that costs does not depend on its length.

    Raises:
        KeyError, TypeError, ValueError, RecursionError: it does not.
        OSError: it cannot be read.
    """
    with file.open("rb") as stream:
        header = stream.readline(_HEADER_MAX)
    if not header.endswith(b"\n") or file.stat().st_size < len(header) + whole(json.loads(header)["bytes"]):
        raise ValueError("it is cut off, or was changed")


@contextmanager
def _writes(file: Path) -> Iterator[None]:
    """Translate what the disk says to a write."""
    try:
        yield
    except OSError as error:
        raise CoordinatorUnavailable(f"{file} cannot be written ({error.strerror}).") from error


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Exclude other writers with a separate lock file, because the file itself is replaced.

    Raises:
        CoordinatorUnavailable: the lock file cannot be opened.
    """
    lock = file.with_name(f"{file.name}.lock")
    try:
        fd = open_lock(lock)
    except OSError as error:
        raise CoordinatorUnavailable(f"{lock} cannot be opened ({error.strerror}).") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
