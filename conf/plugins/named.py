"""Which programs and plug-ins the content of an instance file names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from canal_group.conf.server_settings import BUILT_IN_STORES


def named_code(values: Any) -> set[str]:
    """Return the programs and plug-ins that a file's content makes our processes run, as the file says them.

    The content may be anything: what names nothing that runs is passed over.
    """
    cursor = values.get("cursor") if isinstance(values, Mapping) else None
    kind = cursor.get("kind") if isinstance(cursor, Mapping) else None
    stores = set() if kind is None or kind in BUILT_IN_STORES else {_entry("cursor.kind", kind)}
    return stores | set(_in_mappings(values))


def _in_mappings(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key == "password_command" and inner is not None:
                yield _entry(key, inner)
            elif key == "process" and isinstance(inner, Mapping):
                yield _entry("process.function", inner.get("function"))
            else:
                yield from _in_mappings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _in_mappings(inner)


def _entry(key: str, value: Any) -> str:
    return f"{key}: {json.dumps(value, default=str)}"
