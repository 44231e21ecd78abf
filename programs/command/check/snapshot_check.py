"""The checks of what snapshots need: limits that may be asked for, a proof of what pages see, and SELECT."""

from __future__ import annotations

import contextlib
from typing import Any

import pymysql

from canal_group.actors.sink.sink import Sink
from canal_group.binlog.schema.sql import probe, quoted
from canal_group.binlog.server.access_hint import SELECT_DENIED
from canal_group.binlog.server.definitions.dictionary import Dictionary
from canal_group.binlog.server.preflight.preflight import Check, account_of
from canal_group.binlog.server.source import ServerFacts, SourceAddress, connect, query, server_facts
from canal_group.binlog.snapshot.point_reader import PointReader
from canal_group.binlog.snapshot.server_load import LIMITS, ServerLoad
from canal_group.binlog.snapshot.visibility import proof_found
from canal_group.conf.settings import InstanceSettings
from canal_group.conf.stream_settings import SnapshotSettings
from canal_group.merge.errors import SourceUnfit

_SELECT = "SELECT"


def check_snapshot(settings: InstanceSettings, source: SourceAddress) -> list[Check]:
    """Return the checks; none if no client begins with a snapshot by a setting, and `snapshot` says nothing.

    Whether tables can be selected is tried in the first case only: others are known when they are asked for.

    Raises:
        SourceUnavailable, SourceUnfit: the source does not answer.
    """
    snapshot, begins = settings.snapshot, settings.consumer.snapshot == "initial"
    if not begins and snapshot == SnapshotSettings():
        return []
    with contextlib.closing(connect(source)) as connection:
        facts = server_facts(source, connection)
        load = ServerLoad(source, connection, facts)
        exact = PointReader(source, connection, facts, None).exact
        checks = [_limit(name, load) for name in snapshot.load_limits]
        checks.append(Check("snapshot", *proof_found(facts, snapshot.visible_after_s, exact=exact)))
        return checks + (_selects(settings, source, connection, facts) if begins else [])


def _limit(name: str, load: ServerLoad) -> Check:
    try:
        found = load.asked(name)
    except SourceUnfit as error:
        return Check(f"snapshot.{name}", False, error.message, error.hint)
    says = "it replicates nothing" if found is None else LIMITS[name].says.format(found)
    return Check(f"snapshot.{name}", True, says)


def _selects(
    settings: InstanceSettings, source: SourceAddress, connection: pymysql.Connection[Any], facts: ServerFacts
) -> list[Check]:
    """Return a failed check for each schema of which a kept table cannot be selected, else one that passed.

    One table of each schema is tried.
    """
    sink = Sink(settings.filter.white, settings.filter.black)
    listed = Dictionary(source, connection, facts).listed()
    first = {name.schema: name for name in reversed(listed.tables) if sink.select(*name) is not None}
    denied = []
    for name in first.values():
        try:
            query(source, connection, probe(name))
        except SourceUnfit as error:
            if error.details.get("code") not in SELECT_DENIED:
                raise
            denied.append(name.schema)
    if not denied:
        return [Check(_SELECT, ok=True, found=f"granted on {len(first)} schemas")]
    account = account_of(source, connection)
    return [
        Check(
            _SELECT,
            ok=False,
            found=f"not granted on {schema}, whose rows snapshots read (consumer.snapshot)",
            fix=f"GRANT SELECT ON {quoted(schema)}.* TO {account};",
        )
        for schema in sorted(denied)
    ]
