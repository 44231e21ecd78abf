"""Groups of test files that one process runs together, where several processes share the tests."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from xdist.scheduler import LoadFileScheduling

#: folders with the longest tests, longest first
LONG = ("chaos", "integration", "simulation", "property", "exhaustive")
#: files of a unit, by what they share: MySQL servers, in two units, as one would be the last to end; servers
#: that nobody has prepared; Spark in a JVM; brokers
TOGETHER = {
    "mysql": (
        "binlog/test_account_statements",
        "binlog/test_catalog",
        "binlog/test_conditions",
        "binlog/test_differential",
        "binlog/test_gtid",
        "binlog/test_history",
        "binlog/test_identity",
        "binlog/test_mysql_transactions",
        "binlog/test_numbers",
        "binlog/test_row_images",
        "binlog/test_second_opinion",
        "binlog/test_statements",
        "binlog/test_suites",
        "binlog/test_vectors",
        "canal/test_canal_mysql",
        "group/test_group_failover",
        "group/test_mysql_group",
    ),
    "dumped": (
        "binlog/test_archive",
        "binlog/test_pages",
        "binlog/test_snapshot_pages",
        "dump_server/test_archive_replies",
        "dump_server/test_dump_server",
        "dump_server/test_durable_rows",
        "dump_server/test_live_archive",
    ),
    "unprepared": (
        "binlog/test_archive_first",
        "binlog/test_charset_bytes",
        "binlog/test_confirmation",
        "binlog/test_definitions",
        "binlog/test_described",
        "binlog/test_given_again",
        "binlog/test_masks",
        "binlog/test_metadata",
        "binlog/test_preflight",
        "binlog/test_random_ddl",
        "binlog/test_restored",
        "binlog/test_scan",
        "binlog/test_schema_history",
        "binlog/test_semi_sync",
        "binlog/test_versioned",
        "examples/test_demo",
    ),
    "spark": (
        "examples/test_documents",
        "examples/test_examples_mirror",
        "examples/test_examples_revenue",
        "spark/test_spark_bounded",
        "spark/test_spark_faults",
        "spark/test_spark_formats",
        "spark/test_spark_ranges",
        "spark/test_spark_snapshots",
    ),
    "brokers": (
        "output/test_closed_brokers",
        "output/test_publisher",
        "output/test_relay_metrics",
        "output/test_sink_conformance",
    ),
}
_UNIT_OF = {f"tests/integration/{name}.py": unit for unit, names in TOGETHER.items() for name in names}


class UnitScheduling(LoadFileScheduling):
    """A scheduler that assigns files, all files of a unit to one process."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)


def unit_of(nodeid: str) -> str:
    """Return the unit of a test: its file, or the group of its file."""
    file = nodeid.partition("::")[0]
    return _UNIT_OF.get(file, file)


def sort_units(items: list[pytest.Item]) -> None:
    """Start with the longest units, so that the processes end together; files keep their order in a folder.

    Of the units of a folder those come first that use one instance, which they share, see
    `integration.shared_servers.LastInstance`.
    """
    sharing = {item.path for item in items if uses_last_instance(item) and not _has_own_settings(item)}
    items.sort(key=lambda item: (_turn_of(item.nodeid), item.path not in sharing))


def uses_last_instance(item: pytest.Item) -> bool:
    """Return whether a test uses the instance that files share."""
    return isinstance(item, pytest.Function) and "shared_instance" in item.fixturenames


def _has_own_settings(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and hasattr(item.module, "shared_options")


def _turn_of(nodeid: str) -> int:
    """Return the priority of a test's unit."""
    unit = unit_of(nodeid)
    if unit in TOGETHER:
        return -1
    folder = PurePosixPath(unit).parts[1]
    return LONG.index(folder) if folder in LONG else len(LONG)
