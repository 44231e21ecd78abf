"""JSON lines: one object on one line, for any program that splits text into lines."""

from __future__ import annotations

import json

#: characters that JSON does not escape and that some readers take for the end of a line: str.splitlines does,
#: and older JavaScript did
_LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}


def json_line(value: object) -> str:
    """Return a value as JSON without any line end in it; other characters are not escaped."""
    return json.dumps(value, ensure_ascii=False).translate(_LINE_ENDS)
