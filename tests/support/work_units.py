"""Groups of test files that one process runs together, where several processes share the tests."""

from __future__ import annotations

from pathlib import PurePosixPath

from xdist.scheduler import LoadFileScheduling

#: folders with the longest tests, longest first
LONG = ("chaos", "integration", "simulation", "property", "exhaustive")
#: files of a unit, by an expensive resource that they share: Spark in a JVM, brokers, a data folder of MySQL
TOGETHER = {
    "spark": (
        "examples/test_documents",
        "examples/test_examples_mirror",
        "examples/test_examples_revenue",
        "spark/test_spark_bounded",
        "spark/test_spark_faults",
        "spark/test_spark_formats",
        "spark/test_spark_ranges",
    ),
    "brokers": (
        "output/test_closed_brokers",
        "output/test_publisher",
        "output/test_relay_metrics",
        "output/test_sink_conformance",
    ),
    "mysql": (
        "canal/test_canal_mysql",
        "examples/test_demo",
        "group/test_group_failover",
        "group/test_mysql_group",
        "binlog/test_differential",
        "binlog/test_gtid",
        "binlog/test_history",
        "binlog/test_identity",
        "binlog/test_mysql_transactions",
        "binlog/test_row_images",
        "binlog/test_suites",
        "binlog/test_statements",
        "binlog/test_vectors",
        "dump_server/test_dump_server",
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


def turn_of(nodeid: str) -> int:
    """Return the priority of a test: the longest units start first, so that the processes end together."""
    unit = unit_of(nodeid)
    if unit in TOGETHER:
        return -1
    folder = PurePosixPath(unit).parts[1]
    return LONG.index(folder) if folder in LONG else len(LONG)
