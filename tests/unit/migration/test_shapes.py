"""Shapes of canal's conf that people have: what each becomes, and what of it is left to do."""

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner
from unit.migration.canal_files import Conf

from canal_group.conf.folder import changes, read_folder
from canal_group.conf.load import build_instance
from canal_group.conf.relay.relay_settings import build_relay
from canal_group.conf.server.server_file import ServerFile
from canal_group.merge.errors import ConfigError
from canal_group.programs.command.cli import app
from canal_group.programs.migration.imported import imported, imported_each
from canal_group.programs.migration.instance_text import instance_text
from canal_group.programs.output.kinds import settings_of

DIGEST = "E3619321C1A937C46A0D8BD1DAC39F93B27D4458"
#: changes of canal.properties and of the instance's file, what is left to do, what is in the file
SHAPES = {
    "rds": (
        {"ip": "127.0.0.1"},
        {
            "rds__accesskey": "LTAI5t",
            "rds__secretkey": "s3cret",
            "rds__instanceId": "rm-1",
            "master__address": "rm-1.mysql.rds.aliyuncs.com:3306",
        },
        {"canal.instance.rds.accesskey"},
        {"shards": [{"name": "example", "host": "rm-1.mysql.rds.aliyuncs.com"}]},
    ),
    "oss": (
        {"ip": "127.0.0.1", "aliyun__accessKey": "LTAI5t", "aliyun__secretKey": "s3cret"},
        {},
        {"canal.aliyun.accessKey"},
        {},
    ),
    "login": (
        {"user": "app", "passwd": DIGEST},
        {},
        set(),
        {"canal": {"host": "0.0.0.0", "user": "app"}},
    ),
    "history in a database": (
        {
            "ip": "127.0.0.1",
            "instance__tsdb__spring__xml": "classpath:spring/tsdb/mysql-tsdb.xml",
            "instance__tsdb__url": "jdbc:mysql://u:s3cret@h:3306/canal_tsdb",
            "instance__tsdb__dbPassword": "s3cret",
        },
        {},
        set(),
        {},
    ),
    "high availability": (
        {
            "ip": "127.0.0.1",
            "zkServers": "zk1:2181,zk2:2181",
            "instance__global__spring__xml": "classpath:spring/default-instance.xml",
        },
        {"standby__address": "db1:3306"},
        {"canal.zkServers", "canal.instance.standby.address"},
        {"preset": "default", "coordination": {"kind": "zookeeper", "hosts": "zk1:2181,zk2:2181"}},
    ),
    "no transaction entries": (
        {"ip": "127.0.0.1", "instance__filter__transaction__entry": "true"},
        {},
        set(),
        {"canal": {"host": "127.0.0.1", "transaction_entries": False}},
    ),
    "rows only": (
        {"ip": "127.0.0.1", "instance__filter__query__ddl": "true", "instance__filter__query__dml": "true"},
        {"filter__regex": r"shop\\..*"},
        set(),
        {
            "filter": {
                "white": r"shop\..*",
                "black": r"mysql\.slave_.*",
                "tables": [{"match": ".*", "keep": ["insert", "update", "delete"]}],
            }
        },
    ),
    "manager": (
        {"ip": "127.0.0.1", "admin__manager": "10.0.0.1:8089", "instance__global__mode": "manager"},
        {},
        {"canal.admin.manager", "canal.instance.global.mode"},
        {},
    ),
}


@pytest.fixture
def conf(tmp_path):
    return Conf(tmp_path)


def import_(conf, **options):
    result = imported(conf.files, **{"destination": None, "secrets": conf.secrets, **options})
    made = [
        text
        for each in result.destinations
        for text in (each.values, each.relay, instance_text(result, each))
    ]
    assert "s3cr" not in "".join(map(str, [*result.answers, *made]))
    return result


def has(whole, part):
    """Whether all of a part is in a whole."""
    if isinstance(part, dict):
        return all(key in whole and has(whole[key], value) for key, value in part.items())
    if isinstance(part, list):
        return len(whole) == len(part) and all(map(has, whole, part))
    return whole == part


def left(result):
    return {each.entry.key for each in result.report.left_to_do}


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_is_imported_and_says_what_is_left_to_do(conf, name):
    server, instance, to_do, part = SHAPES[name]
    conf.server(**server)
    conf.instance(**instance)
    result = import_(conf)
    assert left(result) == to_do
    values = result.destinations[0].values
    assert has(values, part), values
    build_instance(values, secrets=frozenset())


def test_kafka_with_dynamic_topics_and_hashes(conf):
    conf.write(
        "canal.properties",
        {
            "canal.serverMode": "kafka",
            "canal.mq.servers": "k1:9092,k2:9092",
            "canal.mq.flatMessage": "true",
            "canal.mq.acks": "all",
        },
    )
    conf.write(
        "orders/instance.properties",
        {
            "canal.instance.master.address": "db:3306",
            "canal.instance.dbUsername": "canal",
            "canal.instance.dbPassword": "${DB_PASSWORD}",
            "canal.mq.topic": "other",
            "canal.mq.dynamicTopic": r"shop_.*:shop\\..*",
            "canal.mq.partitionsNum": "8",
            "canal.mq.partitionHash": r".*\\..*:$pk$",
        },
    )
    result = import_(conf)
    relay = result.destinations[0].relay
    assert relay["route"] == {
        "topic": "other",
        "dynamic_topic": r"shop_.*:shop\..*",
        "partitions": 8,
        "partition_hash": r".*\..*:$pk$",
    }
    assert build_relay(relay, settings_of).output.servers == "k1:9092,k2:9092"
    assert left(result) == set()


def test_the_sources_of_a_group_may_have_accounts_of_their_own(conf):
    xml = "classpath:spring/group-instance.xml"
    conf.server(ip="127.0.0.1", destinations="shop", instance__global__spring__xml=xml)
    conf.instance(
        "shop",
        master__address="",
        master1__address="db1:3306",
        master1__dbUsername="one",
        master1__dbPassword="${DB1_PASSWORD}",
        master2__address="db2:3306",
        dbUsername2="two",
        dbPassword2="s3cret-2",
        master3__address="db3:3306",
        dbPassword="s3cret-3",
    )
    result = import_(conf)
    shards = result.destinations[0].values["shards"]
    assert [each["user"] for each in shards] == ["one", "two", "canal"]
    assert shards[0]["password_env"] == "DB1_PASSWORD"
    result.secrets.write()
    assert [Path(each["password_file"]).read_text() for each in shards[1:]] == ["s3cret-2\n", "s3cret-3\n"]
    assert left(result) == set()


def test_canal_s_container_is_configured_by_its_environment(conf, monkeypatch):
    conf.server()
    conf.instance("example")
    monkeypatch.setenv("canal.destinations", "shop")
    monkeypatch.setenv("canal.instance.master.address", "db:3307")
    monkeypatch.setenv("canal.instance.dbUsername", "app")
    monkeypatch.setenv("canal.instance.dbPassword", "s3cret")
    monkeypatch.setenv("canal.auto.scan", "false")
    result = import_(conf)
    values = result.destinations[0].values
    assert values["destination"] == "shop"
    shard = {"name": "shop", "host": "db", "port": 3307, "user": "app"}
    assert values["shards"] == [{**shard, "password_file": str(conf.secrets / "shop.password")}]
    lines = [str(each) for each in result.answers if each.entry.file == "the environment"]
    assert (
        "ok    the environment: canal.destinations = 'shop': `destination: shop`, though the folder"
        in (lines[1])
    )
    assert len(lines) == 5
    notes = [each.text for each in result.answers if each.entry.key == "canal.instance.dbUsername"]
    assert notes == ["`shards[].user`", "replaced by the environment, as in canal"]


def test_the_single_name_that_is_listed_is_the_single_instance_s(conf):
    conf.server(destinations="shop")
    conf.instance("my_conf")
    assert import_(conf).destinations[0].values["destination"] == "shop"
    # Unless it is that of a folder beside it.
    conf.instance("shop", master__address="db2:3306")
    del conf.files[-1]
    assert import_(conf).destinations[0].values["destination"] == "my_conf"
    # canal ships the name `example`, which says nothing of another folder.
    conf.server(destinations="example")
    del conf.files[-1]
    assert import_(conf).destinations[0].values["destination"] == "my_conf"


def test_what_a_secret_s_placeholder_stands_for_is_a_secret(conf):
    conf.server(my__pw="${canal.my.other}", my__other="s3cret-1", my__host="db9")
    conf.instance(dbPassword="${canal.my.pw}", master__address="${canal.my.host}:3306")
    with conf.files[0].open("a") as file:
        file.write("canal.my.other = s3cret-2\n")
    result = import_(conf)
    shown = {each.entry.key: each.value for each in result.answers}
    assert (shown["canal.my.pw"], shown["canal.my.other"]) == ("(not shown)", "(not shown)")
    assert shown["canal.my.host"] == "'db9'"
    result.secrets.write()
    assert (conf.secrets / "example.password").read_text() == "s3cret-2\n"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("canal.instance.master.trustCertificateKeyStorePassword", "s3cret"),
        ("kafka.ssl.keystore.password", "s3cret"),
        ("kafka.ssl.keystore.key", "s3cret"),
        ("canal.mq.servers", "amqp\\\\://u\\\\:s3cret@h"),
        ("canal.instance.tsdb.url", "jdbc\\\\:mysql\\\\://h/t?user=u&pwd=s3cret"),
        ("pulsarmq.roleToken", "s3cret"),
        ("pulsarmq.serverUrl", "http\\\\://u\\\\:s3 cr s3cret@h"),
        ("canal.manager.jdbc.url", "jdbc\\\\:mysql\\\\://u\\\\:s3cret@h/t"),
        ("my.own.token", "s3cret"),
    ],
)
def test_no_value_with_a_secret_is_shown(conf, key, value):
    conf.server()
    conf.instance()
    with conf.files[1].open("a") as file:
        file.write(f"{key} = {value}\n")
    import_(conf)


def test_an_address_with_a_password_is_refused_without_it(conf):
    conf.instance(master__address="root:s3cret@db:3306")
    with pytest.raises(ConfigError, match=r"should be `host:port`, but is '\*\*\*@db:3306'"):
        import_(conf)


@pytest.fixture
def folder(conf):
    """canal's conf with two instances, for two clients of one server."""
    conf.server(
        destinations="orders,items",
        zkServers="zk1:2181",
        ip="10.0.0.1",
        user="app",
        passwd=DIGEST,
        instance__global__spring__xml="classpath:spring/default-instance.xml",
    )
    conf.instance("orders", master__address="db1:3306", dbPassword="one")
    conf.instance("items", master__address="db2:3306", dbPassword="two", filter__transaction__entry="true")
    return conf.folder


def test_the_instances_of_a_folder_share_what_is_the_server_s(folder, conf):
    result = imported_each([folder], secrets=conf.secrets)
    assert result.server == {
        "coordination": {"kind": "zookeeper", "hosts": "zk1:2181"},
        "canal": {
            "host": "10.0.0.1",
            "user": "app",
            "password_file": str(conf.secrets / "canal-clients.password"),
        },
    }
    items, orders = (each.values for each in result.destinations)
    assert (items["destination"], items["preset"], items["canal"]) == (
        "items",
        "default",
        {"transaction_entries": False},
    )
    assert "canal" not in orders
    assert "coordination" not in orders
    shared = ServerFile("server.yaml", result.server)
    settings = build_instance(items, secrets=frozenset(), server=shared)
    assert (settings.canal.user, settings.canal.transaction_entries) == ("app", False)
    assert left(result) == {"canal.zkServers"}


def test_the_command_writes_a_folder_that_a_server_can_serve(folder, tmp_path):
    into, secrets = tmp_path / "served", tmp_path / "secret"
    meta = tmp_path / "orders.cursor"
    meta.write_text('{"postion": {"journalName": "bin.000001", "position": 4}}')
    arguments = ["import", str(folder), "--into", str(into), "--secrets", str(secrets), "--meta", str(meta)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert done.stdout == ""
    assert sorted(file.name for file in into.iterdir()) == ["items.yaml", "orders.yaml", "server.yaml"]
    assert "canal.zkServers" in (into / "server.yaml").read_text()
    assert "canal.zkServers" not in (into / "orders.yaml").read_text()
    assert "none of the cursors is of this source" in " ".join(
        line.lstrip("# ") for line in (into / "items.yaml").read_text().splitlines()
    )
    orders = yaml.safe_load((into / "orders.yaml").read_text())
    assert orders["shards"][0]["start"] == "bin.000001:4"
    found = read_folder(into)
    settings = {file.name: each.canal for file, each in found.settings.items()}
    assert changes({}, found).refused == found.errors == {}
    assert {name: (each.user, each.transaction_entries) for name, each in settings.items()} == {
        "items.yaml": ("app", False),
        "orders.yaml": ("app", True),
    }
    again = CliRunner().invoke(app, arguments)
    assert "the file should be new, but cannot be written" in str(again.exception)


def test_each_destination_has_a_relay_of_its_own(folder, conf, tmp_path):
    conf.server(serverMode="kafka", destinations="orders,items")
    relays = tmp_path / "relays"
    arguments = ["import", str(folder), "--into", str(tmp_path / "served"), "--relay", str(relays)]
    done = CliRunner().invoke(app, [*arguments, "--secrets", str(conf.secrets)])
    assert done.exit_code == 0, done.output
    assert [
        yaml.safe_load((relays / f"{name}.yaml").read_text())["destination"] for name in ("items", "orders")
    ] == [
        "items",
        "orders",
    ]
    assert not (tmp_path / "served" / "server.yaml").exists(), "there is nothing that they share"


def test_instances_and_relays_need_a_folder_each(folder, conf, tmp_path):
    """A relay's file has the name of its instance's, and would be written instead of it."""
    conf.server(serverMode="kafka", destinations="orders,items")
    into = tmp_path / "served"
    arguments = ["import", str(folder), "--into", str(into), "--relay", f"{into}/../served"]
    done = CliRunner().invoke(app, [*arguments, "--secrets", str(conf.secrets)])
    assert "--relay is the folder of --into" in str(done.exception)
    assert not into.exists()
    assert not conf.secrets.exists()


def test_two_secrets_of_one_name_are_two_files(conf):
    """A group's source and another instance may have one name."""
    conf.instance("shop-1", master__address="a:1", dbPassword="other")
    group = {"master__address": "", "master1__address": "b:1", "master1__dbPassword": "own"}
    conf.instance("shop", **group)
    for _ in range(2):
        result = imported_each(conf.files, secrets=conf.secrets)
        result.secrets.write()
        files = [each.values["shards"][0]["password_file"] for each in result.destinations]
        assert [Path(file).read_text() for file in files] == ["other\n", "own\n"]
    assert result.secrets.new == [], "they are found again"


def test_an_instance_may_not_have_the_name_of_the_server_s_file(conf):
    conf.instance("server")
    with pytest.raises(ConfigError, match=r"be of an instance of another name, but server.yaml"):
        imported_each(conf.files, secrets=conf.secrets)


def test_a_folder_without_instances_is_refused(tmp_path):
    with pytest.raises(
        ConfigError, match=r"be canal's conf, with a folder for each instance's instance\.prop"
    ):
        imported([tmp_path], destination=None, secrets=tmp_path / "secrets")


def test_several_instances_of_a_folder_may_be_one_group(folder, conf):
    values = imported([folder], destination="shop", secrets=conf.secrets).destinations[0].values
    assert [each["name"] for each in values["shards"]] == ["items", "orders"]


def test_a_range_of_destinations_is_understood(conf):
    conf.server(destinations="", destinations__expr="shop{1-3}", ip="127.0.0.1")
    conf.instance("shop1", master__address="a:1")
    conf.instance("shop2", master__address="b:1")
    result = import_(conf, destination="shop")
    (answer,) = result.report.left_to_do
    assert (answer.entry.key, answer.text.partition(":")[0]) == ("canal.destinations.expr", "shop3")
    conf.server(destinations="", destinations__expr="shop{1-99999}")
    del conf.files[-1]
    with pytest.raises(ConfigError, match=r"should name at most 1000 instances, but names 99999"):
        import_(conf, destination="shop")
