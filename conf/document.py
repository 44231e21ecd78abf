"""Documents: read YAML text as a mapping with text keys, or say in one sentence where that fails."""

from __future__ import annotations

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from canal_group.conf.sentence import config_error, shown

_KEY_TAGS = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge")


class _Loader(yaml.SafeLoader):
    """SafeLoader that refuses duplicate keys, instead of taking the last, and keys that are not text."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag not in _KEY_TAGS:
                raise yaml.constructor.ConstructorError(
                    problem="has a key that is not text", problem_mark=key.start_mark
                )
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    problem="has a key twice", problem_mark=key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


#: bytes of a file
DOCUMENT_BYTES_MAX = 1 << 20
#: values of a document, each alias counted as what it stands for
_VALUES_MAX = 100_000


def read_document(path: str | Path) -> dict[str, Any]:
    """Return the mapping that a file of YAML text holds.

    Raises:
        ConfigError: the file cannot be read, is too long or is not UTF-8 text, or as `parse_document`.
    """
    source = str(path)
    try:
        with Path(path).open("rb") as file:
            data = file.read(DOCUMENT_BYTES_MAX + 1)
        if len(data) > DOCUMENT_BYTES_MAX:
            raise config_error(source, "", f"have at most {DOCUMENT_BYTES_MAX} bytes", "has more")
        text = data.decode()
    except OSError as error:
        raise config_error(source, "", "be readable", f"is not ({error.strerror})") from None
    except UnicodeDecodeError:
        raise config_error(source, "", "be UTF-8 text", "is not") from None
    return parse_document(text, source)


def parse_document(text: str, source: str) -> dict[str, Any]:
    """Return the mapping that a YAML text holds.

    Raises:
        ConfigError: it is not YAML, not a mapping, or has a key twice or too many values. For errors of YAML
            the message has line and column, if they are known.
    """
    try:
        value = yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        raise config_error(source, "", "be YAML", f"{_problem(error)}{_location(error)}") from None
    except yaml.YAMLError:
        raise config_error(source, "", "be YAML", "has characters that YAML does not allow") from None
    except Exception as error:  # noqa: BLE001  a date or a number that is none, or brackets too deep
        raise config_error(
            source, "", "be YAML", f"has a value that cannot be read ({type(error).__name__})"
        ) from None
    if _count(value, {}) > _VALUES_MAX:
        raise config_error(source, "", f"have at most {_VALUES_MAX} values", "has more with its aliases")
    if not isinstance(value, dict):
        raise config_error(source, "", "be a mapping of settings", f"is {shown(value)}")
    return value


def _count(value: object, counts: dict[int, int]) -> int:
    """Return how many values there are, each alias counted as what it stands for."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in counts:
        counts[id(value)] = _VALUES_MAX  # of a list that holds itself
        items = value.values() if isinstance(value, dict) else value
        counts[id(value)] = 1 + sum(_count(item, counts) for item in items)
    return counts[id(value)]


def _problem(error: yaml.MarkedYAMLError) -> str:
    # Quoted names can be a piece of a value, such as an unquoted password: only punctuation is repeated.
    return re.sub(r" '[^']*\w[^']*'", "", error.problem or "breaks off")


def _location(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark
    return "" if mark is None else f" in line {mark.line + 1}, column {mark.column + 1}"
