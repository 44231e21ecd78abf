"""The docstring of a call: what HTTP's document and the command line say of it and of its fields."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from canal_group.merge.calls.call import Call

_SECTION = re.compile(r"^(Args|Raises):$", re.MULTILINE)
_FIELD = re.compile(r"^    (\w+): (.+(?:\n {5,}.+)*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Docstring:
    """The parts of a docstring, each paragraph in one line."""

    #: its first line, without the full stop
    summary: str
    #: everything before `Args` and `Raises`
    text: str
    #: what `Args` says of each field
    fields: Mapping[str, str]


def docstring_of(kind: type[Call[Any]]) -> Docstring:
    """Return the docstring of a call."""
    before, *sections = _SECTION.split(inspect.getdoc(kind) or "")
    paragraphs = [" ".join(each.split()) for each in before.strip().split("\n\n")]
    args = dict(zip(sections[::2], sections[1::2], strict=True)).get("Args", "")
    fields = {name: " ".join(text.split()) for name, text in _FIELD.findall(args)}
    return Docstring(before.strip().partition("\n")[0].removesuffix("."), "\n\n".join(paragraphs), fields)
