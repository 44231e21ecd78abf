"""Source side: what a source needs for semi-synchronous replication, and what a replica says to take part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

#: when a source is told that a transaction is safe: never; in the ring; when all cursors are past it; when it
#: is durable in the archive, by the dump server and not by readers
SemiSyncMode: TypeAlias = Literal["off", "ring", "cursor", "archive"]
#: what a replica sets before it requests a dump: in MySQL since 8.0.26, in MariaDB and older MySQL
SESSION = ("@rpl_semi_sync_replica = 1", "@rpl_semi_sync_slave = 1")

#: prefixes of the source's variables: of MySQL's plugin since 8.0.26, of MariaDB and the older plugin
_PREFIXES = ("rpl_semi_sync_source", "rpl_semi_sync_master")
#: the variables that `found_at` reads
VARIABLES = tuple(f"{prefix}_{name}" for prefix in _PREFIXES for name in ("enabled", "timeout"))
_INSTALL = (
    "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'; "
    "SET GLOBAL rpl_semi_sync_source_enabled = ON; (before MySQL 8.0.26: rpl_semi_sync_master, "
    "semisync_master.so)"
)


def found_at(variables: Mapping[str, str]) -> tuple[bool, str, str]:
    """Return whether a source waits for replies, what was found, and what turns it on (empty if it is on).

    Args:
        variables: the source's global variables by lower-case name.
    """
    for prefix in _PREFIXES:
        enabled = variables.get(f"{prefix}_enabled")
        if enabled is None:
            continue
        if enabled.upper() not in ("ON", "1"):
            return False, f"{prefix}_enabled = {enabled}", f"SET GLOBAL {prefix}_enabled = ON;"
        timeout_ms = variables.get(f"{prefix}_timeout", "an unknown number of")
        return True, f"on: a COMMIT waits at most {timeout_ms} ms ({prefix}_timeout)", ""
    return False, "not known to this server: its plugin is not installed", _INSTALL


def waits_ms(variables: Mapping[str, str]) -> int:
    """Return how long a COMMIT waits for a reply at most, milliseconds; 0: it waits for none.

    Args:
        variables: see `found_at`.
    """
    for prefix in _PREFIXES:
        if variables.get(f"{prefix}_enabled", "").upper() in ("ON", "1"):
            return int(variables[f"{prefix}_timeout"])
    return 0
