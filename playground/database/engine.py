"""Engines: the makes of servers that a demo can read; light, for the command line imports it."""

from __future__ import annotations

from enum import StrEnum


class Engine(StrEnum):
    """What kind of servers a demo starts."""

    MARIADB = "mariadb"
    MYSQL = "mysql"
    #: both, by turns, the first one of MariaDB
    MIXED = "mixed"
