"""JSON lines: one object on one line, for any program that splits text into lines, and for terminals."""

from __future__ import annotations

import json

from canal_group.merge.printable import UNPRINTABLE


def json_line(value: object) -> str:
    """Return a value as JSON with escapes for what must not be printed, such as any end of a line."""
    text = json.dumps(value, ensure_ascii=False)
    return UNPRINTABLE.sub(lambda found: f"\\u{ord(found.group()):04x}", text)
