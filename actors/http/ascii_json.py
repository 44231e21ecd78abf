"""JSON in ASCII: whatever a source or a caller said, it can be sent."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import JSONResponse


class AsciiJson(JSONResponse):
    """An answer whose texts may hold what UTF-8 cannot encode: it is escaped."""

    def render(self, content: Any) -> bytes:
        """Return the body."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")
