"""Client ids: the one rule for the names that consumers choose, at every listener and in every store.

A client id is a node of ZooKeeper, a label of metrics, and part of lines that operators read. So the rule is
ZooKeeper's tree's, wherever cursors are kept.
"""

from __future__ import annotations

from typing import Final

from canal_group.merge.errors import UsageError
from canal_group.merge.well_known import NAME

#: children of a destination's node that are not client ids; `parse` is canal's own
RESERVED: Final = frozenset({"cluster", "epoch", "parse", "running", "stopped", "stored"})

#: characters of a client id shown by a refusal
_SHOWN_MAX = 100


def is_client_id(name: str) -> bool:
    """Return whether a name may be a client id."""
    return name not in RESERVED and NAME.fullmatch(name) is not None


def checked_client_id(name: str) -> str:
    """Return a client id.

    Raises:
        UsageError: the name cannot be one.
    """
    if is_client_id(name):
        return name
    taken = ", ".join(sorted(RESERVED))
    raise UsageError(
        f"{name[:_SHOWN_MAX]!a} is not a client id.",
        hint=f"Use up to 128 letters, digits, dots, hyphens and underscores; {taken} are reserved.",
    )
