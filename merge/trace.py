"""Trace: where one transaction stands between its shard's ring and its clients' cursors."""

from __future__ import annotations

from typing import Any

import numpy as np

from merge.delivery.subscriber import Subscriber
from merge.delivery.subscribers import Subscribers
from merge.errors import UsageError
from merge.order.stream import Stream
from merge.values.gtid import GtidSet, MariaDbGtidSet, MySqlGtidSet, parse_gtid_set
from merge.values.header import Flag, Headers


def trace(stream: Stream, subscribers: Subscribers, gtid: str) -> dict[str, Any]:
    """Return where a transaction is in a group, as a JSON object.

    `found` tells whether the group holds it: it is `waiting` to be merged, or `merged` and not acknowledged
    by everybody. `clients` says of each client id what became of it.

    Args:
        stream: the group's.
        subscribers: the group's.
        gtid: of one transaction, "uuid:number" or "domain-server-number".

    Raises:
        UsageError: that is no such GTID.
    """
    wanted = parse_gtid_set(gtid)
    source, number = single(wanted, gtid)
    waiting = [] if stream.timeline is None else [*stream.timeline.waiting(), *stream.ddl.waiting]
    for headers in waiting:
        mine = _of(stream, headers, source, number)
        if len(mine):
            return {**_found(stream, mine, "waiting"), "clients": _clients(stream, subscribers, wanted, None)}
    log = stream.log.slice(stream.log.base, stream.log.tip)
    places = np.flatnonzero(_is(stream, log, source, number))
    if not len(places):
        return {"found": None, "clients": _clients(stream, subscribers, wanted, None)}
    last = stream.log.base + int(places[-1])
    return {
        **_found(stream, log[places], "merged"),
        "clients": _clients(stream, subscribers, wanted, last),
    }


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
    index = {name: place for place, name in enumerate(stream.names)}.get(source, -1)
    return (headers["gtid_number"] == number) & (headers["gtid_source"] == np.int64(index))


def _of(stream: Stream, headers: Headers, source: str, number: int) -> Headers:
    found: Headers = headers[_is(stream, headers, source, number)]
    return found


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


def _clients(
    stream: Stream, subscribers: Subscribers, wanted: GtidSet, index: int | None
) -> list[dict[str, Any]]:
    return [
        {"client_id": each.client_id, **_of_client(each, stream, wanted, index)} for each in subscribers.all
    ]


def _of_client(client: Subscriber, stream: Stream, wanted: GtidSet, index: int | None) -> dict[str, Any]:
    """Return what became of a transaction for a client; `index`: of its last header in the log."""
    cursor = client.cursor
    if cursor is not None and any(place.gtid_set.contains(wanted) for place in cursor.shards.values()):
        return {"state": "acknowledged"}
    if index is None:
        return {"state": "not delivered"}
    for batch in client.delivery.ledger.outstanding:
        if batch.log_start <= index < batch.log_stop:
            return {"state": "outstanding", "batch_id": batch.batch_id}
    passed = stream.merging and index < client.delivery.done
    return {"state": "acknowledged" if passed else "not delivered"}
