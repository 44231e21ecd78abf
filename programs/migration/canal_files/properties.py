"""Properties: canal's configuration files, with the line of each entry.

Java's format: `key=value`, `key: value` or `key value`, comments after `#` or `!`, lines that a backslash
continues, and escapes, in which Java drops a backslash that escapes nothing. javaproperties reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import javaproperties

from canal_group.conf.sentence import config_error
from canal_group.merge.errors import ConfigError

#: in place of a file's name, of entries that are variables
ENVIRONMENT: Final = "the environment"
_OF_CANAL: Final = ("canal.", "kafka.", "rabbitmq.", "rocketmq.", "pulsarmq.")
#: largest file, bytes
FILE_BYTES_MAX = 1 << 20
_LINE_END = re.compile(r"\r\n?|\n")


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a file. `raw` is its value without white space around it, before placeholders."""

    key: str
    raw: str
    file: str
    #: number of the entry's first line, from 1; 0: not from a file
    line: int

    @property
    def location(self) -> str:
        """Where it is, for a message."""
        return f"{self.file}, line {self.line}" if self.line else self.file

    def wrong(self, expected: str, found: str) -> ConfigError:
        """Return the error of a value that cannot be used."""
        return config_error(self.location, self.key, expected, found)


@dataclass(frozen=True, slots=True)
class Properties:
    """The entries of a file, by key. As in Java, the last entry of a key counts."""

    file: Path
    entries: Mapping[str, Entry]
    #: entries that a later one of the same key replaces
    replaced: tuple[Entry, ...] = field(default=())

    @property
    def folder_name(self) -> str:
        """The name of the folder that holds the file: canal's name of the instance."""
        return self.file.absolute().parent.name


def read_environment(variables: Mapping[str, str]) -> Properties:
    """Return the variables that are named as keys of canal: they win over its files."""
    entries = {
        key: Entry(key, value.strip(), ENVIRONMENT, 0)
        for key, value in sorted(variables.items())
        if key.startswith(_OF_CANAL)
    }
    return Properties(Path(ENVIRONMENT), entries)


def read_properties(file: Path) -> Properties:
    """Read a file. Its text is UTF-8, or ISO 8859-1 if it is not that.

    Raises:
        ConfigError: it cannot be read, is too large, or has an escape that is none.
    """
    try:
        with file.open("rb") as opened:
            content = opened.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise config_error(str(file), "", "be readable", f"is not ({error.strerror})") from None
    if len(content) > FILE_BYTES_MAX:
        raise config_error(str(file), "", f"have at most {FILE_BYTES_MAX} bytes", "is longer")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    entries, replaced = dict[str, Entry](), list[Entry]()
    for entry in _entries(text, str(file)):
        if entry.key in entries:
            replaced.append(entries[entry.key])
        entries[entry.key] = entry
    return Properties(file, entries, tuple(replaced))


def _entries(text: str, file: str) -> Iterator[Entry]:
    line, parsed = 1, javaproperties.parse(text)
    while True:
        try:
            element = next(parsed, None)
        except javaproperties.InvalidUEscapeError as error:
            number = line + _line_of(text, line, error.escape)
            raise config_error(
                f"{file}, line {number}", "", r"have four hexadecimal digits after \u", f"has {error.escape}"
            ) from None
        if element is None:
            return
        if isinstance(element, javaproperties.KeyValue):
            yield Entry(element.key, element.value.strip(), file, line)
        line += len(_LINE_END.findall(element.source))


def _line_of(text: str, first: int, escape: str) -> int:
    """Return how many lines after line `first` an escape is."""
    rest = _LINE_END.split(text)[first - 1 :]
    return next((number for number, line in enumerate(rest) if escape in line), 0)
