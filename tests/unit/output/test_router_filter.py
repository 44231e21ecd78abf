"""A router that knows which tables its relay reads: what was delivered has a topic, whatever it names."""

from __future__ import annotations

import pyarrow as pa

from canal_group.conf.relay.relay_settings import RouteSettings
from canal_group.merge.rows.envelope import ENVELOPE
from canal_group.programs.output.routing.router import Router


def test_a_statement_without_a_table_goes_to_a_one_table_relays_topic():
    """Such as the mark of an event that was left out: filters let it pass."""
    row = {"sql": "DO 0 /* canal-group left out {} */", "schema": "", "table": "", "tables": []}
    rows = pa.Table.from_pylist([row], schema=ENVELOPE)
    for more in ({}, {"dynamic_topic": r".*\..*"}):
        addressed, routes = Router(
            RouteSettings(topic="all", **more), table_filter=r"shop\.orders"
        ).addressed(rows)
        assert addressed.column("sql").to_pylist() == [row["sql"]]
        assert routes.topics == ("all",)
