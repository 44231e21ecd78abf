"""View: what canal's files say about one instance.

An entry of the instance's file replaces the one of canal.properties, and a variable of this command's
environment that is named as a key replaces both, as in canal: its container is configured by such variables.
`${name}` and `${name:default}` stand for an entry of either file, or for a variable of the environment.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from canal_group.conf.sentence import shown
from canal_group.programs.migration.canal_files.properties import Entry, Properties

#: deepest chain of placeholders
_DEPTH_MAX = 20
#: longest value that placeholders may make, characters
_CHARS_MAX = 1 << 16
_INNERMOST = re.compile(r"\$\{([^${}]*)\}")
_NAME = re.compile(r"\$\{\s*([^${}:\s]+)")
_DESTINATION = "canal.instance.destination"


@dataclass(frozen=True, slots=True)
class View:
    """The entries of one instance.

    Args:
        name: canal's name of the instance.
        own: its instance.properties.
        server: canal.properties; None: no such file.
        environment: variables that are named as keys; None: no variables.
    """

    name: str
    own: Properties
    server: Properties | None = None
    environment: Properties | None = None

    def entry(self, key: str) -> Entry | None:
        """Return the entry of the first file with this key, or None."""
        return next((file.entries[key] for file in self._files if key in file.entries), None)

    def entry_of(self, key: str) -> Entry:
        """Return the entry that counts, or one without a value, for what has to be said of a key anyway."""
        return self.entry(key) or Entry(key, "", str(self._files[-1].file), 0)

    @property
    def _files(self) -> list[Properties]:
        return [file for file in (self.environment, self.own, self.server) if file is not None]

    def given(self, key: str) -> Entry | None:
        """Return the entry that counts if it has a value."""
        entry = self.entry(key)
        return entry if entry is not None and entry.raw else None

    @property
    def all_keys(self) -> list[str]:
        """Every key, once."""
        return list(dict.fromkeys(key for file in self._files for key in file.entries))

    def references(self, key: str) -> set[str]:
        """Return the keys that the placeholders of an entry stand for, and those that theirs stand for."""
        found, following = set[str](), [key]
        while following:
            name = following.pop()
            texts = [file.entries[name].raw for file in self._files if name in file.entries]
            new = {each for text in texts for each in _NAME.findall(text)} - found
            found |= new
            following += new
        return found

    def text(self, key: str) -> str | None:
        """Return a value with its placeholders filled in; None if there is none, or it is empty.

        Raises:
            ConfigError: a placeholder stands for nothing, or for itself.
        """
        entry = self.entry(key)
        return None if entry is None else self._filled(entry, entry.raw, 0, {}).strip() or None

    def whole(self, key: str, least: int = 0) -> int | None:
        """Return a whole number.

        Raises:
            ConfigError: the value is not a whole number, or less than `least`.
        """
        text, entry = self.text(key), self.entry(key)
        if text is None or entry is None:
            return None
        if not re.fullmatch(r"\d{1,19}", text) or int(text) < least:
            raise entry.wrong(f"be a whole number from {least}", f"is {shown(text)}")
        return int(text)

    def flag(self, key: str, *, default: bool = False) -> bool:
        """Return a flag; `default` if there is none.

        Raises:
            ConfigError: it is neither true nor false.
        """
        text, entry = self.text(key), self.entry(key)
        if text is None or entry is None:
            return default
        if text.lower() not in ("true", "false"):
            raise entry.wrong("be true or false", f"is {shown(text)}")
        return text.lower() == "true"

    def variable(self, key: str) -> str | None:
        """Return the environment variable that is the whole value; None if it is something else."""
        entry = self.given(key)
        match = None if entry is None else _INNERMOST.fullmatch(entry.raw)
        if match is None or ":" in match[1] or self.entry(match[1]) is not None:
            return None
        return match[1] if re.fullmatch(r"[A-Za-z_]\w*", match[1], re.ASCII) else None

    def _filled(self, entry: Entry, text: str, depth: int, filled: dict[str, str]) -> str:
        """Fill in the placeholders of a text; `filled`: texts that were filled in, so that each is once."""
        raw = text
        if raw in filled:
            return filled[raw]
        if depth > _DEPTH_MAX or len(text) > _CHARS_MAX:
            raise entry.wrong("have placeholders that end", "has one that stands for itself")
        while (match := _INNERMOST.search(text)) is not None:
            name, separator, default = match[1].partition(":")
            value = self._stands_for(name.strip(), default if separator else None)
            if value is None:
                raise entry.wrong(
                    "have placeholders that stand for an entry or a variable of the environment",
                    f"has ${{{name}}}, which is neither",
                )
            text = text[: match.start()] + self._filled(entry, value, depth + 1, filled) + text[match.end() :]
            if len(text) > _CHARS_MAX:
                raise entry.wrong(f"have at most {_CHARS_MAX} characters", "has more")
        filled[raw] = text
        return text

    def _stands_for(self, name: str, default: str | None) -> str | None:
        if name in os.environ:
            return os.environ[name]
        entry = self.entry(name)
        if entry is not None:
            return entry.raw
        return self.name if name == _DESTINATION else default
