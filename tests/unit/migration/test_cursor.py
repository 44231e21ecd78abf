"""canal's cursors become starts: of meta.dat, and of a node in ZooKeeper."""

import json

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
    build_instance(result.values, secrets=frozenset())
    return [shard.get("start") for shard in result.values["shards"]]


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


def test_a_cursor_of_a_source_not_imported_is_refused(conf, written):
    conf.instance()
    with pytest.raises(
        ConfigError, match=r"hold cursors of the imported sources, but it has one of db9:3306"
    ):
        starts(conf, written(meta(position(address=("db9", 3306)))))


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
        ('{"postion": {"journalName": "mysql-bin", "position": 4}}', "'mysql-bin:~4' is not a start"),
        ('{"postion": {"journalName": "a.000001", "position": 3}}', "inside the first 4 bytes"),
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
