"""The check of the right that snapshots need: to select the rows of the tables that are kept."""

from __future__ import annotations

import contextlib

from canal_group.actors.sink.sink import Sink
from canal_group.binlog.server.access_hint import SELECT_DENIED
from canal_group.binlog.server.definitions.dictionary import Dictionary
from canal_group.binlog.server.preflight.preflight import Check, account_of
from canal_group.binlog.server.source import SourceAddress, connect, query, server_facts
from canal_group.binlog.snapshot.selected_table import quoted
from canal_group.conf.settings import InstanceSettings
from canal_group.merge.errors import SourceUnfit

_NAME = "SELECT"


def check_select(settings: InstanceSettings, source: SourceAddress) -> list[Check]:
    """Return a failed check for each schema of which a kept table cannot be selected, else one that passed.

    One table of each schema is tried. Nothing is asked if clients do not begin with snapshots by a setting.

    Raises:
        SourceUnavailable, SourceUnfit: the source does not answer.
    """
    if settings.consumer.snapshot != "initial":
        return []
    sink = Sink(settings.filter.white, settings.filter.black)
    with contextlib.closing(connect(source)) as connection:
        listed = Dictionary(source, connection, server_facts(source, connection)).listed()
        first = {name.schema: name for name in reversed(listed.tables) if sink.select(*name) is not None}
        denied = []
        for name in first.values():
            try:
                query(source, connection, f"SELECT 1 FROM {'.'.join(map(quoted, name))} LIMIT 0")  # noqa: S608
            except SourceUnfit as error:
                if error.details.get("code") not in SELECT_DENIED:
                    raise
                denied.append(name.schema)
        account = account_of(source, connection) if denied else ""
    if not denied:
        return [Check(_NAME, ok=True, found=f"granted on {len(first)} schemas")]
    return [
        Check(
            _NAME,
            ok=False,
            found=f"not granted on {schema}, whose rows snapshots read (consumer.snapshot)",
            fix=f"GRANT SELECT ON {quoted(schema)}.* TO {account};",
        )
        for schema in sorted(denied)
    ]
