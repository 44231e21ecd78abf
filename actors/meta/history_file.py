"""Schema histories in one file per shard, beside the destination's file of cursors.

    {"epoch":7}
    {"version":2}
    ...

The first line is the epoch that has seen it last; the rest is the history's text, which grows. What a crash
has left of a line was never answered: it is no part of the text.
"""

from __future__ import annotations

import json
from pathlib import Path

from actors.meta.locked import locked
from actors.process.durable import append_lines, make_folder, replace_file
from merge.errors import ConfigError, CoordinatorUnavailable
from merge.values.epoch import refuse_older
from merge.values.position import whole


class FileHistoryStore:
    """Keeps histories in files; they survive a restart and a loss of power.

    An older epoch cannot write what a newer one has loaded.

    Implements `actors.ports.SchemaHistoryStore`.

    Args:
        destination: name of the destination, from which the files' names are made.
        folder: their folder; created if missing.

    Raises:
        ConfigError: the folder cannot be created.
    """

    def __init__(self, destination: str, folder: Path) -> None:
        self._folder, self._destination = folder, destination
        try:
            make_folder(folder)
        except OSError as error:
            raise ConfigError(f"The folder {folder} cannot be created ({error.strerror}).") from error

    def load(self, shard: str, epoch: int) -> str | None:
        """Return a shard's history; None if there is none.

        Raises:
            FencedError: a newer epoch has been seen.
            ConfigError: the file is damaged.
            CoordinatorUnavailable: the epoch could not be written.
        """
        file = self._file(shard)
        with locked(file):
            seen, history = self._read(file)
            refuse_older(epoch, seen, str(file))
            if history is not None and seen != epoch:
                self._write(file, epoch, history)
        return history

    def save(self, shard: str, history: str, epoch: int) -> None:
        """Write a shard's history.

        Raises:
            FencedError: a newer epoch has been seen; nothing was written.
            ConfigError: the file is damaged; nothing was written.
            CoordinatorUnavailable: it could not be written; saving again is harmless.
        """
        file = self._file(shard)
        with locked(file):
            refuse_older(epoch, self._read(file)[0], str(file))
            self._write(file, epoch, history)

    def append(self, shard: str, text: str, epoch: int) -> None:
        """Continue a shard's history. Raises as `save`."""
        file = self._file(shard)
        with locked(file):
            refuse_older(epoch, self._epoch(file), str(file))
            try:
                append_lines(file, text)
            except OSError as error:
                raise CoordinatorUnavailable(f"{file} cannot be written ({error.strerror}).") from error

    def _file(self, shard: str) -> Path:
        return self._folder / f"{self._destination}.{shard}.schema.json"

    def _read(self, file: Path) -> tuple[int, str | None]:
        epoch = self._epoch(file)
        if not epoch:
            return 0, None
        _, _, history = file.read_text("utf-8").partition("\n")
        return epoch, history[: history.rfind("\n") + 1]

    def _epoch(self, file: Path) -> int:
        """Return the epoch that has seen a file last; 0: there is no file."""
        try:
            with file.open(encoding="utf-8") as lines:
                return whole(json.loads(lines.readline())["epoch"])
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise ConfigError(f"{file} cannot be read ({error.strerror}).") from error
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise ConfigError(
                f"{file} does not hold a schema history ({type(error).__name__}: {error}).",
                hint="Restore it from a backup, or remove it: a new one begins with what the source shows.",
            ) from error

    def _write(self, file: Path, epoch: int, history: str) -> None:
        try:
            replace_file(file, f'{{"epoch":{epoch}}}\n{history}' + ("" if history.endswith("\n") else "\n"))
        except OSError as error:
            raise CoordinatorUnavailable(f"{file} cannot be written ({error.strerror}).") from error
