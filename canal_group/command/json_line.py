"""JSON lines: one object, one line, for whatever splits text into lines."""

from __future__ import annotations

import json

#: what some readers take for the end of a line, beside what JSON escapes by itself: str.splitlines does, and
#: JavaScript did
_LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}


def json_line(value: object) -> str:
    """Return a value as JSON without any line end in it; other characters stand as they are."""
    return json.dumps(value, ensure_ascii=False).translate(_LINE_ENDS)
