"""Which server is read: it is asked on the connection that dumps, and has to have what was read before."""

from __future__ import annotations

import contextlib
import socket
import threading

import pytest
from support.deadline import await_true
from support.sources.recorder import await_rows, reading
from support.sources.replication import (
    MAKES,
    OTHER_LOG,
    gtids,
    ids_of,
    insert,
    read_all,
    replicate,
    servers,
)

from canal_group.merge.errors import DataError, SourceUnavailable, SourceUnfit
from playground.database.mariadb import MariaDbServer
from playground.database.mysql import MySqlServer


class Balancer:
    """An address with several servers behind it: the n-th connection goes where `ports[n]` says.

    What comes after the last goes where that one went.
    """

    def __init__(self, ports):
        self.ports = ports
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.sockets = [self.listening]
        self.threads = []
        self._start(self._accept)

    def _start(self, target, *args):
        self.threads.append(threading.Thread(target=target, args=args, daemon=True))
        self.threads[-1].start()

    def _accept(self):
        for number in range(1 << 30):
            try:
                theirs, _ = self.listening.accept()
            except OSError:
                return
            ours = socket.create_connection(("127.0.0.1", self.ports[min(number, len(self.ports) - 1)]))
            self.sockets += [theirs, ours]
            self._start(self._copy, theirs, ours)
            self._start(self._copy, ours, theirs)

    @staticmethod
    def _copy(source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        for each in self.sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self.threads:
            thread.join(10)


def test_a_server_that_only_the_dump_reached_is_not_read(source_address):
    """1. Two servers of equal binlogs, and a position of the first. 2. Behind one address, the first answers
    preflight and control connection, the second the dump: its rows are not taken for the first one's.
    """
    with servers(MariaDbServer, [], []) as (one, two):
        for server in (one, two):
            insert(server, 1, 2, 3)
        position = read_all(source_address(one), 3)
        insert(two, 101, 102, 103)
        with (
            Balancer([one.port, one.port, two.port]) as balancer,
            pytest.raises(DataError),
            reading(source_address(one, port=balancer.port), start=position) as recorder,
        ):
            await_true(lambda: recorder.error is not None or recorder.rows("g"), "an end")
        assert ids_of(recorder) == []
        first = recorder.of("disconnected")[0]
        assert isinstance(first, SourceUnavailable)
        assert f"{one.server_id} on the first connection, {two.server_id} on the second" in str(first)


def test_the_reader_goes_on_when_the_address_keeps_to_one_server(source_address):
    with servers(MariaDbServer, [], []) as (one, two):
        insert(one, 1, 2, 3)
        position = read_all(source_address(one), 3)
        insert(one, 4)
        ports = [one.port, one.port, two.port, one.port]
        with (
            Balancer(ports) as balancer,
            reading(source_address(one, port=balancer.port), start=position) as recorder,
        ):
            await_rows(recorder, "g", 1)
        assert ids_of(recorder) == [4]
        assert len(recorder.of("disconnected")) == 1


@pytest.mark.parametrize(
    ("make", "options"),
    [(MySqlServer, []), (MariaDbServer, ["--gtid-domain-id=7"])],
    ids=["mysql", "mariadb"],
)
def test_an_unrelated_server_is_refused(make, options, source_address):
    """By GTID all that it has would be new. Both sets are named."""
    with servers(make, [], [*OTHER_LOG, *options]) as (server, other):
        insert(server, 1, 2)
        insert(other, 101, 102, 103)
        position = read_all(source_address(server), 2)

        def read_other():
            with reading(source_address(other), start=position) as recorder:
                await_true(lambda: recorder.error is not None or recorder.rows("g"), "an end")
                assert ids_of(recorder) == []

        with pytest.raises(SourceUnfit, match="nothing in common") as caught:
            read_other()
        for each in (server, other):
            assert str(gtids(each)) in str(caught.value)


def test_an_unrelated_mariadb_of_the_same_domain_is_refused(source_address):
    """Its numbers are higher, so that the sets do not tell: the server itself does not know the GTID."""
    with servers(MariaDbServer, [], OTHER_LOG) as (server, other):
        insert(server, 1, 2)
        insert(other, 101, 102, 103)
        position = read_all(source_address(server), 2)
        with (
            pytest.raises(DataError, match=r"cannot serve the position \(1236\)"),
            reading(source_address(other), start=position) as recorder,
        ):
            await_true(lambda: recorder.error is not None or recorder.rows("g"), "an end")
        assert ids_of(recorder) == []


@MAKES
def test_a_replica_that_lags_is_waited_for(make, source_address):
    """1. A replica stops to replicate. 2. What its source has beyond that was read. 3. The replica is asked
    to go on: it promises nothing until it has caught up, and then only what was not read comes.
    """
    with servers(make, [], [*OTHER_LOG, "--log-slave-updates=ON"]) as (source, replica):
        replicate(source, replica)
        insert(source, 1)
        await_true(lambda: gtids(replica).contains(gtids(source)), "the replica has all of it")
        name = "SLAVE" if make is MariaDbServer else "REPLICA"
        replica.execute(f"STOP {name}")
        insert(source, 2, 3)
        position = read_all(source_address(source), 3)
        insert(source, 4)
        with reading(source_address(replica), start=position, connects=False) as recorder:
            await_true(lambda: len(recorder.of("disconnected")) >= 2, "it is asked again")
            assert str(position.gtid_set) in str(recorder.of("disconnected")[0])
            assert "lacks transactions" in str(recorder.of("disconnected")[0])
            assert not recorder.of("caught_up")
            replica.execute(f"START {name}")
            await_rows(recorder, "g", 1)
        assert ids_of(recorder) == [4]
