"""Instance text: imported settings as files, with what is left to do as comments."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from canal_group.conf.document import parse_document
from canal_group.conf.server.server_file import SERVER_FILE
from canal_group.merge.errors import ConfigError
from canal_group.merge.file_name import file_name
from canal_group.merge.printable import escaped
from canal_group.programs.migration.imported import Destination, Imported
from canal_group.programs.migration.report import Answer

_WIDTH = 110


class _Dumper(yaml.SafeDumper):
    """Write equal lists out each time: an alias is shorter, but not for who edits the file."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - yaml's interface
        """Return that nothing becomes an alias."""
        return True


def instance_text(imported: Imported, destination: Destination) -> str:
    """Return the text of a destination's instance file.

    What is left to do in canal.properties is in it if there is no file of the server.

    Raises:
        ConfigError: what it says as YAML is something else.
    """
    own = {str(view.own.file) for view in destination.views}
    if not imported.server:
        own |= {str(each.file) for each in imported.files}
    return _text(imported, destination.values, own)


def server_text(imported: Imported) -> str:
    """Return the text of server.yaml, with what is left to do beside the instances; raises as above."""
    instances = {str(view.own.file) for each in imported.destinations for view in each.views}
    return _text(imported, imported.server, {str(each.file) for each in imported.files} - instances)


def _text(imported: Imported, values: Mapping[str, Any], files: Collection[str]) -> str:
    listed = ", ".join(str(each.file) for each in imported.files if str(each.file) in files)
    lines = list(_comment(f"Imported from {listed}.", ""))
    todo: list[Answer] = [each for each in imported.report.left_to_do if each.entry.file in files]
    if todo:
        lines += ["#", *_comment("Left to do:", "")]
        for answer in todo:
            lines += _comment(f"- {answer.entry.key} ({answer.entry.location}): {answer.text}.", "  ")
    return _proved("\n".join([*lines, "", _yaml(values)]), values)


def texts_of(imported: Imported, folder: Path) -> dict[Path, str]:
    """Return the files that a server of all destinations serves, with their texts; raises as above."""
    texts = {
        folder / file_name(f"{each.values['destination']}.yaml"): instance_text(imported, each)
        for each in imported.destinations
    }
    return texts | ({folder / SERVER_FILE: server_text(imported)} if imported.server else {})


def relay_text(relay: Mapping[str, Any]) -> str:
    """Return the text of a relay's file; raises as `instance_text`."""
    return _proved(_yaml(relay), relay)


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
