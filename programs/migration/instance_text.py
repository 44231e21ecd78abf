"""Instance text: imported settings as an instance file, with what is left to do as comments."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from canal_group.conf.document import parse_document
from canal_group.merge.errors import ConfigError
from canal_group.merge.printable import escaped
from canal_group.programs.migration.imported import Imported

_WIDTH = 110


class _Dumper(yaml.SafeDumper):
    """Write equal lists out each time: an alias is shorter, but not for who edits the file."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - yaml's interface
        """Return that nothing becomes an alias."""
        return True


def instance_text(imported: Imported) -> str:
    """Return the text of the instance file.

    Raises:
        ConfigError: what it says as YAML is something else.
    """
    listed = ", ".join(str(each.file) for each in imported.files)
    lines = list(_comment(f"Imported from {listed}.", ""))
    todo = imported.report.left_to_do
    if todo:
        lines += ["#", *_comment("Left to do:", "")]
        for answer in todo:
            lines += _comment(f"- {answer.entry.key} ({answer.entry.location}): {answer.text}.", "  ")
    return _proved("\n".join([*lines, "", _yaml(imported.values)]), imported.values)


def relay_text(imported: Imported) -> str:
    """Return the text of the relay's file; raises as `instance_text`."""
    return _proved(_yaml(imported.relay or {}), imported.relay or {})


def _yaml(values: Mapping[str, Any]) -> str:
    return yaml.dump(dict(values), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH)


def _proved(text: str, values: Mapping[str, Any]) -> str:
    """Return a text that says these values and nothing else when it is read."""
    if parse_document(text, "The imported file") != values:
        raise ConfigError(
            "The imported settings cannot be written as YAML that says the same.",
            hint="Look for characters in canal's files that do not belong there.",
        )
    return text


def _comment(text: str, indent: str) -> Iterator[str]:
    # Some of what must not be printed ends a line of YAML: what follows would be a setting.
    for line in textwrap.wrap(
        escaped(text), _WIDTH - 2, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    ):
        yield f"# {line}"
