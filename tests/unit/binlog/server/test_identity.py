"""What is compared where a stream continues, and how a refusal names the range in doubt."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass, field, replace

import pytest
from support.defaults import address_of

from canal_group.binlog.server.source import ServerFacts
from canal_group.binlog.server.starts.identity import Identity
from canal_group.binlog.server.starts.logged import Logged
from canal_group.merge.errors import DataError, PositionRefused, SourceUnavailable, SourceUnfit
from canal_group.merge.values.gtids.gtid import NO_GTIDS, parse_gtid_set
from canal_group.merge.values.position import Position
from canal_group.merge.values.resets.last_transaction import LastTransaction

ADDRESS = address_of("s1", "db0", server_id=7)
S_US = 1_000_000
UUID = "00010203-0405-0607-0809-0a0b0c0d0e0f"
OTHER = "10010203-0405-0607-0809-0a0b0c0d0e0f"
LAST = LastTransaction("0-1-5", 50 * S_US, "1", "bin.000002", 400)
AT = Position("bin.000002", 500, parse_gtid_set("0-1-5"), server="1", created_s=20, last=LAST)


def mariadb(name="1"):
    return ServerFacts("10.11.6-MariaDB", int(name), name, {})


def mysql(name):
    return ServerFacts("8.4.0", 1, name, {"gtid_mode": "ON"})


@dataclass
class Log:
    """A log with what a test gives it."""

    #: bytes, GTIDs before, and transactions of its files
    files: dict[str, tuple[int, str, list[Logged]]]
    created_s: int = 20
    error: DataError | None = None
    read_files: list[tuple[str, int]] = field(default_factory=list)

    def sizes(self):
        return {name: size for name, (size, _, _) in self.files.items()}

    def gtids_before(self, file):
        text = self.files[file][1]
        return parse_gtid_set(text) if text else NO_GTIDS

    def executed(self):
        return parse_gtid_set("0-1-9")

    @contextlib.contextmanager
    def read(self, file, offset):
        self.read_files.append((file, offset))
        yield OpenFile(self, [each for each in self.files[file][2] if each.offset >= offset])


@dataclass
class OpenFile:
    log: Log
    transactions: list[Logged]

    def created(self):
        if self.log.error is not None:
            raise self.log.error
        return self.log.created_s

    def __iter__(self):
        return iter(self.transactions)


def logged(gtid, at_s, offset=400, original_s=None):
    separator = ":" if ":" in gtid else "-"
    source, _, number = gtid.rpartition(separator)
    original_s = at_s if original_s is None else original_s
    return Logged(source, int(number), int(at_s * S_US), int(original_s * S_US), offset)


def require(log, position=AT, facts=None, *, by_gtid=True):
    Identity(ADDRESS, facts or mariadb(), log, position).require(by_gtid=by_gtid)


def refusal(log, position=AT, facts=None, *, by_gtid=True):
    with pytest.raises(PositionRefused) as caught:
        require(log, position, facts, by_gtid=by_gtid)
    details = caught.value.details
    assert (details["shard"], details["file"], details["offset"]) == ("s1", position.file, position.offset)
    assert details["in_doubt"] in str(caught.value)
    assert "rewind" in caught.value.hint
    return caught.value


def here(*transactions, size=500):
    return Log({"bin.000001": (900, "", []), "bin.000002": (size, "0-1-4", list(transactions))})


@pytest.mark.parametrize("by_gtid", [True, False])
def test_the_same_transaction_at_the_same_offset_goes_on(by_gtid):
    log = here(logged("0-1-5", 50))
    require(log, by_gtid=by_gtid)
    assert log.read_files == [("bin.000002", 400)], "one look, where it begins"


@pytest.mark.parametrize("by_gtid", [True, False])
@pytest.mark.parametrize(
    ("found", "what"),
    [
        ([logged("0-1-5", 51)], "0-1-5 of 1970-01-01T00:00:51"),
        ([logged("0-1-6", 50)], "0-1-6 of"),
        ([logged("0-2-5", 50)], "0-2-5 of"),
        ([], "no transaction"),
    ],
)
def test_another_one_instead_of_it_is_refused(found, what, by_gtid):
    error = refusal(here(*found), by_gtid=by_gtid)
    assert f"has {what}" in str(error)
    assert error.details["in_doubt"] == "the transactions up to 0-1-5"
    assert error.details["executed"] == "0-1-9"


def test_a_log_that_lost_its_end_names_what_is_between():
    """The transaction may begin in what is left: it is torn."""
    log = here(logged("0-1-5", 50), size=450)
    log.files["bin.000003"] = (300, "0-1-4", [])
    error = refusal(log)
    assert "it has 450 bytes, and 500 were read" in str(error)
    assert error.details["in_doubt"] == "bin.000002:450 to 500, which are the transactions after 0-1-4"


def test_by_file_the_end_is_asked_for_when_the_source_has_refused_it():
    log = here(logged("0-1-5", 50), size=450)
    with pytest.raises(PositionRefused, match="has lost the end of"):
        Identity(ADDRESS, mariadb(), log, AT).require_end()
    for position in (replace(AT, server="2"), replace(AT, file="bin.000009"), replace(AT, offset=450)):
        Identity(ADDRESS, mariadb(), log, position).require_end()


def test_a_file_of_another_creation_is_refused():
    log = here(logged("0-1-5", 50))
    log.created_s = 21
    assert "created at 1970-01-01T00:00:21.000000Z and not at 1970-01-01T00:00:20" in str(refusal(log))
    require(log, replace(AT, created_s=0))


@pytest.mark.parametrize("by_gtid", [True, False])
def test_what_the_server_says_of_the_offset_is_told(by_gtid):
    log = here(logged("0-1-5", 50))
    log.error = DataError("bogus data in log event")
    assert "bogus data in log event" in str(refusal(log, by_gtid=by_gtid))
    log.error = SourceUnfit("denied")
    with pytest.raises(SourceUnfit):
        require(log, by_gtid=by_gtid)


def test_a_position_that_moved_on_is_compared_by_its_file():
    moved = replace(AT, file="bin.000003", offset=300, created_s=30)
    log = here(logged("0-1-5", 50))
    log.files["bin.000003"] = (300, "0-1-5", [])
    log.created_s = 30
    require(log, moved)
    assert log.read_files == [("bin.000003", 300)]
    log.created_s = 31
    refusal(log, moved)


@pytest.mark.parametrize("by_gtid", [True, False])
def test_the_rest_of_a_transaction_has_to_be_there(by_gtid):
    inside = replace(AT, rows_into_transaction=7)
    rest = logged("0-1-6", 51, offset=500)
    require(here(logged("0-1-5", 50), rest), inside, by_gtid=by_gtid)
    error = refusal(here(logged("0-1-5", 50)), inside, by_gtid=by_gtid)
    assert "of which the first 7 rows were read" in str(error)
    elsewhere = replace(inside, file="log.000001", last=None)
    assert "inside a transaction" in str(refusal(here(), elsewhere))


# ---- on another server


def there(*transactions, before="", later="0-1-8"):
    return Log(
        {
            "log.000007": (900, "", []),
            "log.000008": (900, before, list(transactions)),
            "log.000009": (900, later, [logged("0-1-9", 90)]),
        }
    )


def test_on_another_server_the_transaction_is_looked_for_by_its_gtid():
    log = there(logged("0-1-4", 40), logged("0-1-5", 50), before="0-1-3")
    require(log, facts=mariadb("2"))
    assert log.read_files == [("log.000008", 4)], "the file is found by what is before it"
    error = refusal(there(logged("0-1-4", 40), logged("0-1-5", 51), before="0-1-3"), facts=mariadb("2"))
    assert "has 0-1-5 of 1970-01-01T00:00:51" in str(error)
    assert "not 0-1-5 of 1970-01-01T00:00:50" in str(error)


def test_the_same_number_of_another_server_is_not_it():
    refusal(there(logged("0-1-4", 40), logged("0-2-5", 50), before="0-1-3"), facts=mariadb("2"))


def test_an_unlogged_transaction_is_not_compared_and_others_still_are(caplog):
    """Such as by a replica without log_slave_updates."""
    with caplog.at_level(logging.WARNING):
        require(there(logged("0-2-6", 60), before="0-1-3"), facts=mariadb("2"))
    assert "it has not logged it" in caplog.text
    error = refusal(there(logged("0-1-4", 40), logged("0-2-6", 60), before="0-1-3"), facts=mariadb("2"))
    assert "has not logged 0-1-5" in str(error)


def test_what_was_purged_cannot_be_compared_and_nothing_is_left_out_for_it(caplog):
    log = Log({"log.000009": (900, "0-1-5", [logged("0-1-6", 60)])})
    with caplog.at_level(logging.WARNING):
        require(log, facts=mariadb("2"))
    assert "it has purged the transactions up to 0-1-5" in caplog.text
    # Of a second domain it still has what is counted as read.
    both = replace(AT, gtid_set=parse_gtid_set("0-1-5,7-1-3"))
    assert "has purged 0-1-5" in str(refusal(log, both, mariadb("2")))


@pytest.mark.parametrize(
    ("read_from", "found", "same"),
    [
        # of the server that committed it first: its time
        (UUID, logged(f"{UUID}:5", 57, original_s=50), True),
        (UUID, logged(f"{UUID}:5", 57, original_s=50.000001), False),
        (UUID, logged(f"{UUID}:5", 57, original_s=49), False),
        # of a replica: its time is not replicated
        (OTHER, logged(f"{UUID}:5", 57, original_s=49), True),
        (OTHER, logged(f"{UUID}:5", 57, original_s=54), True),
        (OTHER, logged(f"{UUID}:5", 57, original_s=56), False),
    ],
)
def test_mysql_has_two_times(read_from, found, same):
    last = LastTransaction(f"{UUID}:5", 50 * S_US, read_from, "bin.000002", 400)
    position = replace(AT, gtid_set=parse_gtid_set(f"{UUID}:1-5"), server=read_from, last=last)
    log = Log({"log.000001": (900, "", [found])})
    facts = mysql("20010203-0405-0607-0809-0a0b0c0d0e0f")
    if same:
        require(log, position, facts)
    else:
        refusal(log, position, facts)


def test_without_the_last_transaction_there_is_nothing_to_compare():
    log = there()
    require(log, replace(AT, last=None), mariadb("2"))
    require(log, replace(AT, last=None), by_gtid=False)
    assert log.read_files == []


def test_a_time_that_a_client_made_up_is_shown():
    last = replace(LAST, commit_us=10**30)
    assert "1970-01-01T00:00:50" in str(refusal(here(logged("0-1-5", 50)), replace(AT, last=last)))


def further(log, position=AT, require_contained=lambda: None):
    Identity(ADDRESS, mariadb(), log, position).require_further(require_contained)


def test_what_a_further_reader_has_is_compared_by_file_on_its_server():
    further(here(logged("0-1-5", 50)))
    with pytest.raises(PositionRefused, match=r"has 0-1-5 of 1970-01-01T00:00:51"):
        further(here(logged("0-1-5", 51)))
    with pytest.raises(PositionRefused, match=r"has lost the end of bin\.000002"):
        further(here(logged("0-1-5", 50), size=450))
    with pytest.raises(PositionRefused, match=r"has no bin\.000009, though it has files from before it"):
        further(here(), replace(AT, file="bin.000009", last=None))
    further(here(), replace(AT, file="bin.000000", last=None))


def test_further_readers_are_compared_by_gtid_if_files_do_not_suffice():
    """On another server, and on one of the same name with other files."""
    log = here(logged("0-1-5", 51))
    for position in (replace(AT, server="2"), replace(AT, file="other.000002")):
        with pytest.raises(PositionRefused, match=r"has 0-1-5 of 1970-01-01T00:00:51"):
            further(log, position)
        further(here(logged("0-1-5", 50)), position)
        further(log, replace(position, last=None))


def test_where_gtids_tell_a_server_has_to_have_all_that_was_read_further():
    def lags():
        raise SourceUnavailable("it lags")

    log = here(logged("0-1-5", 50))
    further(log, require_contained=lags)
    with pytest.raises(SourceUnavailable):
        further(log, replace(AT, server="2"), lags)
    of_mysql = LastTransaction(f"{UUID}:5", 50 * S_US, UUID, "bin.000002", 400)
    other_kind = replace(AT, server=UUID, gtid_set=parse_gtid_set(f"{UUID}:1-5"), last=of_mysql)
    further(log, other_kind, lags)
