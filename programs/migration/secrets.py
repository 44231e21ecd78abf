"""Secrets: passwords of canal's files, each put into a file that only its owner reads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path

from canal_group.conf.sentence import config_error
from canal_group.merge.errors import ConfigError
from canal_group.merge.file_name import file_name

_FOLDER_MODE, _FILE_MODE = 0o700, 0o600


@dataclass(slots=True)
class Secrets:
    """Files to write, all or none.

    Args:
        folder: where they go; made if there is none.
    """

    folder: Path
    #: what was put, by file; and the files of it that do not exist yet
    _put: dict[Path, str] = field(default_factory=dict)
    _texts: dict[Path, str] = field(default_factory=dict)

    def put(self, name: str, text: str) -> str:
        """Return the whole path of the file that will hold a secret; equal secrets of a name share it.

        Another secret of the same name gets a number.

        Raises:
            ConfigError: such a file exists and holds something else.
        """
        path = (self.folder / file_name(name)).absolute()
        numbered = (path.with_stem(f"{path.stem}-{number}") for number in count(2))
        path = next(each for each in chain([path], numbered) if self._put.get(each, text) == text)
        self._put[path] = text
        try:
            content = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            self._texts[path] = text
        except (OSError, UnicodeDecodeError):
            raise _kept(path) from None
        else:
            if content.rstrip("\r\n") != text:
                raise _kept(path)
        return str(path)

    @property
    def new(self) -> list[Path]:
        """The files that `write` will make."""
        return list(self._texts)

    def write(self, also: Mapping[Path, str] | None = None) -> None:
        """Write the files that do not exist yet.

        Args:
            also: files without secrets that are written with them, and their whole texts.

        Raises:
            ConfigError: one cannot be written, or was made meanwhile; those made before are removed again.
        """
        made = list[Path]()
        try:
            if self._texts:
                self.folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
            for path in also or {}:
                path.parent.mkdir(parents=True, exist_ok=True)
            for path, text in {**self._texts, **(also or {})}.items():
                number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE)
                made.append(path)
                with open(number, "w", encoding="utf-8") as file:  # noqa: PTH123 - a file that is open
                    file.write(text if text.endswith("\n") else f"{text}\n")
        except OSError as error:
            for path in made:
                path.unlink(missing_ok=True)
            at = str(error.filename or self.folder)
            raise config_error(at, "", "be new", f"cannot be written ({error.strerror})") from None


def _kept(path: Path) -> ConfigError:
    return config_error(
        str(path), "", "be missing or hold the imported secret", "holds something else, and is left as it is"
    )
