"""History text: what a shard's schema history is stored as, whole or as a continuation."""

from __future__ import annotations

from typing import NamedTuple


class HistoryText(NamedTuple):
    """A part of a schema history's text."""

    text: str
    #: whether the text replaces the stored text; otherwise the text is appended
    whole: bool
