"""Resume: where a subscription continues that was dropped or purged."""

from __future__ import annotations

from enum import StrEnum


class Resume(StrEnum):
    """Where a dropped or purged subscription continues."""

    #: at its cursor: the sources are read again from there
    CURSOR = "cursor"
    #: where the others are: the rows in between are not delivered to it
    NOW = "now"
