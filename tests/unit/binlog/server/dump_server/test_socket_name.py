"""Who shares a dump server: readers that want the same of it."""

from __future__ import annotations

from dataclasses import fields, replace

from support.binlog.archived import SERVER, options_of
from support.defaults import address_of

from canal_group.binlog.archive.options import ArchiveOptions
from canal_group.binlog.server.dump_server.wire import socket_name


def test_readers_that_want_another_archive_have_another_dump_server():
    options = options_of("/archive")
    one = address_of("s1", "db0", archive=options)
    others = [replace(options, **{field.name: "other"}) for field in fields(ArchiveOptions)]
    addresses = [replace(one, archive=other) for other in (*others, None)]
    names = {socket_name(each, SERVER) for each in (one, *addresses, replace(one, semi_sync="archive"))}
    assert len(names) == len(addresses) + 2
    assert socket_name(replace(one, name="s2", server_id=7, destination="other"), SERVER) in names
