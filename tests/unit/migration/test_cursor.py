"""canal's cursors become starts: of meta.dat, and of a node in ZooKeeper."""

import json
import socket

import pytest
from unit.migration.canal_files import Conf

from canal_group.conf.load import build_instance
from canal_group.merge.errors import ConfigError
from canal_group.programs.migration.canal_files.cursor import read_cursors
from canal_group.programs.migration.imported import imported

GTIDS = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"


def position(
    file="mysql-bin.000003", offset=4711, time_ms=1_700_000_000_000, gtid="", address=("127.0.0.1", 3306)
):
    """A cursor as canal's JSON has it."""
    return {
        "identity": {"slaveId": -1, "sourceAddress": {"address": address[0], "port": address[1]}},
        "postion": {
            "gtid": gtid,
            "included": False,
            "journalName": file,
            "position": offset,
            "serverId": 1,
            "timestamp": time_ms,
        },
    }


def meta(*cursors, destination="example"):
    """The content of a meta.dat with these cursors, of clients 1001, 1002 and so on."""
    clients = [
        {
            "clientIdentity": {"clientId": 1001 + number, "destination": destination, "filter": ""},
            "cursor": cursor,
        }
        for number, cursor in enumerate(cursors)
    ]
    return {"clientDatas": clients, "destination": destination}


@pytest.fixture
def conf(tmp_path):
    return Conf(tmp_path)


@pytest.fixture
def written(tmp_path):
    def write(value, name="meta.dat"):
        file = tmp_path / name
        file.write_text(value if isinstance(value, str) else json.dumps(value))
        return file

    return write


def starts(conf, *files, **options):
    result = imported(
        conf.files, **{"destination": None, "secrets": conf.secrets, "cursors": files, **options}
    )
    (destination,) = result.destinations
    build_instance(destination.values, secrets=frozenset())
    return [shard.get("start") for shard in destination.values["shards"]]


def test_a_cursor_is_the_transaction_that_holds_its_offset_or_its_gtids(conf, written):
    conf.instance()
    assert starts(conf, written(meta(position()))) == ["mysql-bin.000003:~4711"]
    assert starts(conf, written(meta(position(gtid=GTIDS)))) == [GTIDS]
    node = {"@type": "com.alibaba.otter.canal.protocol.position.LogPosition", **position(offset=9)}
    assert starts(conf, written(node)) == ["mysql-bin.000003:~9"]


def test_of_several_clients_the_oldest_counts_as_in_canal(conf, written):
    conf.instance()
    cursors = [
        position("mysql-bin.000010", 500),
        position("mysql-bin.000009", 900),
        position("mysql-bin.000009", 800),
        position("mysql-bin.000011", 4),
    ]
    assert starts(conf, written(meta(*cursors))) == ["mysql-bin.000009:~800"]


def test_a_cursor_wins_over_a_configured_position(conf, written):
    conf.instance(master__journal__name="mysql-bin.000001", master__position="4")
    file = written(meta(position()))
    assert starts(conf, file) == ["mysql-bin.000003:~4711"]
    result = imported(conf.files, destination=None, secrets=conf.secrets, cursors=[file])
    texts = [answer.text for answer in result.answers if answer.entry.key.endswith("journal.name")]
    assert f"the cursor of {file} counts instead: mysql-bin.000003:~4711" in texts


def test_a_cursor_of_the_standby_is_a_time_on_the_master(conf, written):
    conf.instance(standby__address="db1:3307")
    cursor = position(address=("DB1", 3307))
    assert starts(conf, written(meta(cursor))) == ["2023-11-14T22:12:20+00:00"]
    assert starts(conf, written(meta({**cursor, "postion": {**cursor["postion"], "gtid": GTIDS}}))) == [GTIDS]


def test_each_cursor_finds_its_shard(conf, written):
    conf.instance("a", master__address="db0:3306")
    conf.instance("b", master__address="db1:3306")
    conf.instance("c", master__address="db2:3306")
    one = written(meta(position(offset=10, address=("db1", 3306)), destination="b"), "b.dat")
    two = position(offset=20)
    two["identity"] = {"slaveId": -1}
    other = written(meta(two, destination="a"), "a.dat")
    assert starts(conf, one, other, destination="shop") == [
        "mysql-bin.000003:~20",
        "mysql-bin.000003:~10",
        None,
    ]


def left_to_do(conf, *files, **options):
    """What is left to do: the folder of the instance, the key, and what is said."""
    result = imported(
        conf.files, **{"destination": None, "secrets": conf.secrets, "cursors": files, **options}
    )
    return [
        (each.entry.file.split("/")[-2], each.entry.key.removeprefix("canal.instance."), each.text)
        for each in result.report.left_to_do
        if each.entry.key.endswith(".address")
    ]


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST", "127.0.0.1", "::1", "127.0.1.1", socket.gethostname()]
)
@pytest.mark.parametrize("configured", ["127.0.0.1", "localhost", "[::1]"])
def test_a_cursor_may_have_another_name_of_its_source_s_address(conf, written, host, configured):
    # Of another instance by its file, so that nothing but the address can say it.
    conf.instance(master__address=f"{configured}:3306")
    file = written(meta(position(address=(host, 3306)), destination="other"))
    assert starts(conf, file) == ["mysql-bin.000003:~4711"]
    assert left_to_do(conf, file) == []


@pytest.mark.parametrize(("host", "port"), [("db9", 3306), ("localhost", 3307)])
def test_a_cursor_of_a_source_not_imported_is_refused(conf, written, host, port):
    conf.instance()
    with pytest.raises(ConfigError, match=rf"hold cursors of the imported sources; .* one of {host}:{port}"):
        starts(conf, written(meta(position(address=(host, port)), destination="other")))


def test_a_cursor_on_an_unknown_server_begins_by_time_and_is_left_to_do(conf, written):
    conf.instance()
    cursor = position(address=("db-7.internal", 3306))
    file = written(meta(cursor))
    # As canal does when its source was replaced: a minute before.
    assert starts(conf, file) == ["2023-11-14T22:12:20+00:00"]
    ((instance, key, text),) = left_to_do(conf, file)
    assert (instance, key) == ("example", "master.address")
    assert "is of db-7.internal:3306, which is not known to be this server" in text
    assert text.endswith("set `start: mysql-bin.000003:~4711`")
    by_gtid = written(meta({**cursor, "postion": {**cursor["postion"], "gtid": GTIDS}}), "gtid.dat")
    assert starts(conf, by_gtid) == [GTIDS]


def test_a_cursor_on_an_unknown_server_without_a_time_is_refused(conf, written):
    conf.instance()
    with pytest.raises(ConfigError, match=r"it has one of db9:3306"):
        starts(conf, written(meta(position(time_ms=0, address=("db9", 3306)))))


@pytest.mark.parametrize("offset", [0, 4])
def test_a_cursor_at_the_begin_of_a_file_is_the_file_s_begin(conf, written, offset):
    conf.instance()
    assert starts(conf, written(meta(position(offset=offset)))) == ["mysql-bin.000003:4"]


def test_a_node_s_data_is_of_the_instance_that_its_file_names(conf, written):
    conf.instance("a", master__address="10.1.0.1:3306")
    conf.instance("b", master__address="10.1.0.2:3306")
    node = position(offset=20, address=("db-b.internal", 3306))
    file = written(node, "b.1001.cursor")
    assert starts(conf, file, destination="shop") == [None, "2023-11-14T22:12:20+00:00"]
    with pytest.raises(ConfigError, match=r"is known by its name, INSTANCE.cursor, but it has one of db-b"):
        starts(conf, written(node, "cursor"), destination="shop")


def test_shards_without_a_cursor_beside_others_are_left_to_do(conf, written):
    conf.instance("a", master__address="10.1.0.1:3306")
    conf.instance("b", master__address="10.1.0.2:3306")
    conf.instance("c", master__address="10.1.0.3:3306", master__journal__name="bin.000001")
    file = written(meta(position(address=("10.1.0.1", 3306)), destination="a"))
    ((instance, key, text),) = left_to_do(conf, file, destination="shop")
    assert (instance, key) == ("b", "master.address")
    assert text.startswith("none of the cursors is of this source: its shard begins at the source's end")
    assert left_to_do(conf, destination="shop") == [], "without any cursor nothing is said"


def test_each_of_several_client_ids_is_given_its_own_start(conf, written):
    conf.instance("a", master__address="10.1.0.1:3306")
    conf.instance("b", master__address="10.1.0.2:3306")
    times = 1_700_000_000_000, 1_700_000_060_000, 1_700_000_120_000
    one = [position(offset=900, time_ms=times[1]), position(offset=800, time_ms=times[0])]
    two = [position(offset=90, time_ms=times[2])]
    for each in (*one, *two):
        each["identity"] = {}
    files = written(meta(*one, destination="a"), "a.dat"), written(meta(*two, destination="b"), "b.dat")
    assert starts(conf, *files, destination="shop") == ["mysql-bin.000003:~800", "mysql-bin.000003:~90"]
    left = left_to_do(conf, *files, destination="shop")
    assert [text.partition("canal-group ")[2] for _, _, text in left] == [
        # A client id has one time for all shards: that of its oldest cursor.
        "rewind -d shop --client 1001 --new --to 2023-11-14T22:14:20+00:00",
        "rewind -d shop --client 1002 --new --to 2023-11-14T22:13:20+00:00",
    ]
    assert left_to_do(conf, files[1], destination="shop") != []
    assert "rewind" not in str(left_to_do(conf, files[1], destination="shop")), "there is one client id"


def test_cursors_with_two_names_of_one_server_are_compared_by_offset(conf, written):
    conf.instance()
    cursors = position(offset=900, time_ms=5), position(offset=800, time_ms=9, address=("localhost", 3306))
    assert starts(conf, written(meta(*cursors))) == ["mysql-bin.000003:~800"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "JSONDecodeError"),
        ("[]", "AttributeError"),
        ("{}", "has none"),
        ('{"identity": {}}', "KeyError"),
        ('{"clientDatas": [], "destination": "x"}', "has none"),
        ('{"clientDatas": [{"clientIdentity": {"clientId": 1}}]}', "has none"),
        ('{"clientDatas": 3}', "TypeError"),
        ('{"postion": {"journalName": "mysql-bin", "position": 4}}', "'mysql-bin:4' is not a start"),
        ('{"postion": {"journalName": "a.000001", "position": 3}}', "inside the first 4 bytes"),
        ('{"postion": {"position": 0, "timestamp": 5}}', "':4' is not a start"),
        ('{"postion": {"journalName": "a.000001", "position": "x"}}', "ValueError"),
        ('{"postion": {"gtid": "x"}}', "'x' is not a start"),
        ("[" * 100_000, "RecursionError"),
    ],
)
def test_what_holds_no_cursor_is_refused_with_the_reason(written, text, why):
    file = written(text)
    with pytest.raises(ConfigError) as error:
        read_cursors(file)
    assert error.value.message.startswith(f"{file}: the file should hold canal's cursors")
    assert why in error.value.message


def test_a_file_of_cursors_that_is_missing_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="should be readable, but is not"):
        read_cursors(tmp_path / "none")
