"""Starts: canal's cursors as the starts of the shards whose sources they are of.

A cursor is of an instance by the name in its file, or of its file, and of a source by its address: the same
host, a name of the same address, or this machine by any of its names. The oldest of a source counts, as in
canal. A shard without one, beside others that have one, would begin at its source's end: that is left to do.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias

from canal_group.conf.sentence import config_error
from canal_group.merge.values.reach import is_loopback
from canal_group.programs.migration.canal_files.cursor import CanalCursor, time_text
from canal_group.programs.migration.canal_files.view import View
from canal_group.programs.migration.report import Report

START_KEYS = ("journal.name", "position", "timestamp", "gtid")

#: host and port
Endpoint: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Source:
    """A shard of an instance, and where its source is."""

    view: View
    #: the shard's entry of `shards`, which gets its `start`
    shard: dict[str, Any]
    #: prefix of the source's keys, such as `canal.instance.master1`
    prefix: str
    primary: Endpoint
    standby: Endpoint | None
    #: how long before its last commit another server is read from
    fallback_s: float
    #: name of the stream that it is a shard of
    destination: str


def start_at_cursors(sources: Sequence[Source], cursors: Sequence[CanalCursor], report: Report) -> None:
    """Give every shard the start that its oldest cursor says.

    Args:
        sources: all that are imported.
        cursors: of their clients.
        report: takes the answers.

    Raises:
        ConfigError: a cursor is of no source.
    """
    of_sources: list[list[CanalCursor]] = [[] for _ in sources]
    for cursor in cursors:
        index = _source_of(cursor, sources)
        host, port = sources[index].primary
        is_here = _is_same(cursor, (host, port))
        of_sources[index].append(replace(cursor, host=host, port=port) if is_here else cursor)
    of_sources = [_oldest_first(own) for own in of_sources]
    for source, own in zip(sources, of_sources, strict=True):
        if own:
            _begin(source, own[0], report)
        elif cursors and "start" not in source.shard:
            report.act(
                source.view.entry_of(f"{source.prefix}.address"),
                "none of the cursors is of this source: its shard begins at the source's end, and what"
                " canal's clients have not acknowledged is lost. Import with its cursor (--meta), or set"
                " `shards[].start`",
            )
    _say_clients(sources, of_sources, report)


def _begin(source: Source, oldest: CanalCursor, report: Report) -> None:
    entry = source.view.entry_of(f"{source.prefix}.address")
    if _is_same(oldest, source.primary):
        start = oldest.start
    elif oldest.gtids or oldest.time_ms:
        start = oldest.start_elsewhere(source.fallback_s)
        if source.standby is None or not _is_same(oldest, source.standby):
            report.act(
                entry,
                f"the cursor in {oldest.source} is of {oldest.host}:{oldest.port}, which is not known to be"
                f" this server: the shard begins at {start}. If it is, set `start: {oldest.start}`",
            )
    else:
        raise _of_no_source(oldest)
    source.shard["start"] = start
    for key in START_KEYS:
        report.note(
            source.view.given(f"{source.prefix}.{key}"),
            f"the cursor of {oldest.source} counts instead: {start}",
        )


def _say_clients(
    sources: Sequence[Source], of_sources: Sequence[Sequence[CanalCursor]], report: Report
) -> None:
    """Say how each of several client ids of a destination begins at its own cursor.

    A shard has one start. Whoever connects after the first one has read on would not begin there any more.
    """
    for name in dict.fromkeys(source.destination for source in sources):
        own = [index for index, source in enumerate(sources) if source.destination == name]
        clients = sorted({cursor.client_id for index in own for cursor in of_sources[index]} - {""})
        entry = sources[own[0]].view.entry_of(f"{sources[own[0]].prefix}.address")
        for client_id in clients if len(clients) > 1 else ():
            times = [_time_of(client_id, of_sources[index]) for index in own if of_sources[index]]
            at = time_text(min(times)) if all(times) else "TIME, one before what it has acknowledged last"
            report.act(
                entry,
                f"canal has cursors of {len(clients)} client ids. Before any of them connects, let client"
                f" {client_id} begin at its own: canal-group rewind -d {name} --client {client_id} --new"
                f" --to {at}",
            )


def _time_of(client_id: str, cursors: Sequence[CanalCursor]) -> int:
    """Return the time of a client's cursor; of a client that has none there, that of the oldest."""
    return next((each for each in cursors if each.client_id == client_id), cursors[0]).time_ms


def _oldest_first(cursors: Collection[CanalCursor]) -> list[CanalCursor]:
    ordered = list[CanalCursor]()
    for cursor in cursors:
        before = next((index for index, each in enumerate(ordered) if cursor.is_before(each)), len(ordered))
        ordered.insert(before, cursor)
    return ordered


def _source_of(cursor: CanalCursor, sources: Sequence[Source]) -> int:
    """Return the index of the source that a cursor is of.

    Raises:
        ConfigError: it is of none, or may be of several.
    """
    named = [index for index, each in enumerate(sources) if each.view.name == cursor.destination]
    candidates = named or list(range(len(sources)))
    for role in ("primary", "standby"):
        for index in candidates:
            endpoint = getattr(sources[index], role)
            if cursor.host and endpoint is not None and _is_same(cursor, endpoint):
                return index
    # Of the instance, though on a server that is not among its own: a name that is not known here.
    if len(candidates) == 1 and (named or not cursor.host):
        return candidates[0]
    raise _of_no_source(cursor)


def _of_no_source(cursor: CanalCursor) -> Exception:
    source = f"{cursor.host}:{cursor.port}" if cursor.host else f"instance {cursor.destination}"
    return config_error(
        cursor.source,
        "",
        "hold cursors of the imported sources; a file with the data of a node is known by its name,"
        " INSTANCE.cursor",
        f"it has one of {source}",
    )


def _is_same(cursor: CanalCursor, endpoint: Endpoint) -> bool:
    """Return whether a cursor is of a server; one without an address is of the server that there is."""
    host, port = endpoint
    if not cursor.host:
        return True
    return cursor.port == port and (
        cursor.host.lower() == host.lower() or bool(_addresses(cursor.host) & _addresses(host))
    )


@lru_cache(maxsize=256)
def _addresses(host: str) -> frozenset[str]:
    """Return the addresses of a host; those of this machine are one; none if the name is not known."""
    try:
        found = {str(info[4][0]) for info in socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP)}
    except (OSError, UnicodeError):
        found = {"localhost"} if host.lower() == "localhost" else set()
    return frozenset("localhost" if is_loopback(each) else _plain(each) for each in found)


def _plain(address: str) -> str:
    mapped = getattr(ipaddress.ip_address(address.partition("%")[0]), "ipv4_mapped", None)
    return address if mapped is None else str(mapped)
