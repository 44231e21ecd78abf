"""Trace: where one transaction stands between its shard's ring and its clients' cursors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from canal_group.merge.delivery.subscriber import Subscriber
from canal_group.merge.delivery.subscribers import Subscribers
from canal_group.merge.errors import UsageError
from canal_group.merge.order.stream import Stream
from canal_group.merge.rows.table_filter import TableFilter
from canal_group.merge.values.chunk import TableName
from canal_group.merge.values.gtids.gtid import (
    NO_GTIDS,
    GtidSet,
    MariaDbGtidSet,
    MySqlGtidSet,
    parse_gtid_set,
)
from canal_group.merge.values.header import Flag, Headers


def trace(
    stream: Stream,
    subscribers: Subscribers,
    gtid: str,
    read: Mapping[str, str],
    shard: str | None = None,
    table: TableName | None = None,
) -> dict[str, Any]:
    """Return where a transaction is in a group, as a JSON object.

    `read_by` names the shards that have read it. `found` tells whether the group holds it: it is `waiting` to
    be merged, or `merged` and not acknowledged by everybody. `clients` says of each client id what became of
    it.

    MariaDB numbers the transactions of a domain, and servers that know nothing of each other may have the
    same domain, even the same server_id. So a transaction is of the shard in which the group holds it, else
    of the one whose last transaction in the domain is of the same server. Where several have the same server,
    or none has because it was replaced, the shard has to be named.

    Args:
        stream: the group's.
        subscribers: the group's.
        gtid: of one transaction, "uuid:number" or "domain-server-number".
        read: the GTIDs that each shard has read, as text, by its name.
        shard: whose transaction it is; None: as said above.
        table: of which changes in the transaction are traced: clients whose filter leaves it out do not get
            them; None: the transaction as a whole.

    Raises:
        UsageError: it is not one transaction's GTID, or it is unknown whose it is, or the shard is unknown.
    """
    gtid_set = parse_gtid_set(gtid)
    source, number = single(gtid_set, gtid)
    if shard is not None and shard not in stream.shards:
        raise UsageError(f"The group has no shard {shard}.", hint=f"It has {', '.join(stream.shards)}.")
    log = stream.log.slice(stream.log.base, stream.log.tip)
    waiting = [] if stream.timeline is None else [*stream.timeline.waiting(), *stream.ddl.waiting]
    matches = [(headers, np.flatnonzero(_is(stream, headers, source, number))) for headers in (*waiting, log)]
    held = {
        stream.shards[each] for headers, indexes in matches for each in np.unique(headers["shard"][indexes])
    }
    gtids = {name: parse_gtid_set(text) for name, text in read.items()}
    counted = [shard] if shard is not None else _shards_of(gtid_set, held, gtids)
    traced: dict[str, Any] = {
        "read_by": [name for name in counted if gtids.get(name, NO_GTIDS).contains(gtid_set)],
        "found": None,
    }
    last = None
    for headers, indexes in matches:
        mine = indexes[[stream.shards[each] in counted for each in headers["shard"][indexes]]]
        if len(mine):
            last = stream.log.base + int(mine[-1]) if headers is log else None
            traced |= _found(stream, headers[mine], "merged" if headers is log else "waiting")
            break
    clients = [
        {
            "client_id": each.client_id,
            **_of_client(
                each,
                stream,
                gtid_set,
                counted,
                last,
                replayed=each.client_id in subscribers.elsewhere,
            ),
        }
        if table is None or TableFilter.of_reader(each.filter).matches(table)
        else {"client_id": each.client_id, "state": "left out by its filter"}
        for each in subscribers.everybody
    ]
    return {**traced, "clients": clients}


def _shards_of(wanted: GtidSet, held: set[str], read: Mapping[str, GtidSet]) -> list[str]:
    """Return the shards of which a transaction may be.

    Args:
        wanted: one transaction.
        held: the shards in which the group holds it.
        read: what each shard has read, by its name.

    Raises:
        UsageError: it is unknown of which it is.
    """
    if held:
        candidates = sorted(held)
    elif isinstance(wanted, MariaDbGtidSet):
        candidates = _of_server(wanted, read)
    else:
        return list(read)
    if len(candidates) > 1:
        raise UsageError(
            f"{wanted} may be a transaction of each of the shards {', '.join(candidates)}.",
            hint="Name the shard.",
        )
    return candidates


def _of_server(wanted: MariaDbGtidSet, read: Mapping[str, GtidSet]) -> list[str]:
    """Return the shards whose last transaction in its domain is of its server; all, if it was replaced."""
    ((domain, server, _),) = wanted.domains
    found = [
        name
        for name, gtids in read.items()
        if isinstance(gtids, MariaDbGtidSet) and (domain, server) in {each[:2] for each in gtids.domains}
    ]
    may_have = any(gtids.contains(wanted) for gtids in read.values())
    return found or (list(read) if may_have else [])


def single(gtids: GtidSet, text: str) -> tuple[str, int]:
    """Return the source and the number of the one transaction in a set.

    Raises:
        UsageError: it has none, or several.
    """
    if isinstance(gtids, MariaDbGtidSet) and len(gtids.domains) == 1:
        domain, server, number = gtids.domains[0]
        return f"{domain}-{server}", number
    if isinstance(gtids, MySqlGtidSet) and len(gtids.runs) == 1:
        ((uuid, tag), intervals) = gtids.runs[0]
        if len(intervals) == 1 and intervals[0][1] - intervals[0][0] <= 1:
            return f"{uuid}:{tag}" if tag else uuid, int(intervals[0][0])
    raise UsageError(f"{text!r} is not the GTID of one transaction.", hint="Expected 0-1-42, or uuid:42.")


def _is(stream: Stream, headers: Headers, source: str, number: int) -> Any:
    index = {name: index for index, name in enumerate(stream.names)}.get(source, -1)
    return (headers["gtid_number"] == number) & (headers["gtid_source"] == np.int64(index))


def _found(stream: Stream, headers: Headers, where: str) -> dict[str, Any]:
    first, last = headers[0], headers[-1]
    return {
        "found": where,
        "shard": stream.shards[int(first["shard"])],
        "position": f"{stream.names[int(first['file'])]}:{int(first['begin_offset'])}",
        "rows": int(headers["rows"].sum()),
        "whole": bool(int(last["flags"]) & Flag.END),
        "commit_us": int(first["commit_us"]),
        "key_us": int(first["key_us"]),
    }


def _of_client(
    client: Subscriber,
    stream: Stream,
    wanted: GtidSet,
    shards: list[str],
    index: int | None,
    *,
    replayed: bool,
) -> dict[str, Any]:
    """Return the state of a transaction for a client.

    Args:
        client: the client.
        stream: the live stream.
        wanted: the transaction.
        shards: of which it may be.
        index: of its last header in the log; None: the log does not have it.
        replayed: whether the client does not read that log.
    """
    acknowledged = {} if client.cursor is None else client.cursor.shards
    if any(acknowledged[name].gtid_set.contains(wanted) for name in shards if name in acknowledged):
        return {"state": "acknowledged"}
    if replayed:
        return {"state": "replayed"}
    if index is None:
        return {"state": "not delivered"}
    for batch in client.delivery.ledger.outstanding:
        if batch.log_start <= index < batch.log_stop:
            return {"state": "outstanding", "batch_id": batch.batch_id}
    passed = stream.merging and index < client.delivery.done
    return {"state": "acknowledged" if passed else "not delivered"}
