"""canal's message queue mode becomes the settings of a relay."""

import pytest
import yaml
from typer.testing import CliRunner
from unit.migration.canal_files import SERVER, Conf

from canal_group.conf.relay.relay_settings import build_relay
from canal_group.merge.errors import ConfigError
from canal_group.programs.command.cli import app
from canal_group.programs.migration.imported import imported
from canal_group.programs.migration.report import Kind
from canal_group.programs.output.kinds import settings_of


@pytest.fixture
def conf(tmp_path):
    return Conf(tmp_path)


def found(conf):
    return imported(conf.files, destination=None, secrets=conf.secrets)


def relay_of(conf):
    return found(conf).destinations[0].relay


def said(conf, key):
    return [(each.kind, each.text) for each in found(conf).answers if each.entry.key == key]


def kafka(conf, **changes):
    """Write files of Kafka's mode; `changes` are of `kafka.` keys, with `__` for a dot."""
    conf.server(serverMode="kafka")
    with conf.files[0].open("a") as file:
        for key, value in changes.items():
            file.write(f"kafka.{key.replace('__', '.')} = {value}\n")


def test_canal_s_own_keys_of_kafka(conf):
    kafka(conf)
    conf.instance()
    assert relay_of(conf) == {
        "destination": "example",
        "read": {"gateway": "grpc://127.0.0.1:11113"},
        "output": {
            "kind": "kafka",
            "servers": "127.0.0.1:9092",
            "compression": "none",
            "options": {"linger.ms": 1},
            "message_bytes_max": 1_048_576,
        },
    }
    assert found(conf).report.left_to_do == []
    assert "canal" not in found(conf).destinations[0].values


def test_topics_partitions_and_forms(conf):
    conf.server(
        serverMode="rabbitMQ", zkServers="zk:2181/app", mq__flatMessage="false", mq__database__hash="false"
    )
    conf.write(
        "example/instance.properties",
        {
            "canal.instance.master.address": "db",
            "canal.instance.dbUsername": "canal",
            "canal.mq.topic": "shop",
            "canal.mq.dynamicTopic": r"orders:shop\\.orders,.*\\..*",
            "canal.mq.partition": "2",
            "canal.mq.partitionsNum": "4",
            "canal.mq.partitionHash": r"shop\\.orders:id^note,.*\\..*:$pk$",
            "canal.mq.dynamicTopicPartitionNum": "orders:8",
            "canal.mq.enableDynamicQueuePartition": "false",
        },
    )
    relay = relay_of(conf)
    assert relay["read"] == {"zookeeper": "zk:2181", "prefix": "/app/otter/canal"}
    assert relay["format"] == "protobuf"
    assert relay["route"] == {
        "topic": "shop",
        "dynamic_topic": r"orders:shop\.orders,.*\..*",
        "partition": 2,
        "partitions": 4,
        "partition_hash": r"shop\.orders:id^note,.*\..*:$pk$",
        "dynamic_topic_partitions": "orders:8",
        "database_hash": False,
    }


def test_a_login_of_kafka_goes_to_a_file(conf):
    login = (
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="app" password="s3cret";'
    )
    kafka(
        conf,
        sasl__jaas__config=login,
        sasl__mechanism="SCRAM-SHA-256",
        security__protocol="SASL_SSL",
        ssl__x="y",
    )
    conf.instance()
    output = relay_of(conf)["output"]
    assert (output["username"], output["mechanism"]) == ("app", "SCRAM-SHA-256")
    assert output["protocol"] == "SASL_SSL"
    assert output["password_file"] == str(conf.secrets / "kafka.password")
    assert "s3cret" not in "".join(map(str, found(conf).answers))
    keys = {answer.entry.key for answer in found(conf).report.left_to_do}
    assert keys == {"kafka.security.protocol", "kafka.ssl.x"}


def test_rabbitmq(conf):
    conf.server(serverMode="rabbitMQ")
    with conf.files[0].open("a") as file:
        for key, value in {
            "host": "mq:5673",
            "virtual.host": "/shop",
            "exchange": "changes",
            "username": "app",
            "password": "s3cret",
            "queue": "q",
            "deliveryMode": "2",
        }.items():
            file.write(f"rabbitmq.{key} = {value}\n")
    conf.instance()
    assert relay_of(conf)["output"] == {
        "kind": "rabbitmq",
        "host": "mq",
        "port": 5673,
        "virtual_host": "/shop",
        "exchange": "changes",
        "username": "app",
        "password_file": str(conf.secrets / "rabbitmq.password"),
    }
    assert [kind for kind, _ in said(conf, "rabbitmq.queue")][-1] is Kind.ACT


@pytest.mark.parametrize("mode", ["rocketMQ", "pulsarMQ"])
def test_a_queue_without_a_relay_is_reported(conf, mode):
    conf.server(serverMode=mode)
    conf.instance()
    assert relay_of(conf) is None
    assert [kind for kind, _ in said(conf, "canal.serverMode")] == [Kind.ACT]


def test_an_unknown_compression_is_refused(conf):
    kafka(conf, compression__type="best")
    conf.instance()
    with pytest.raises(ConfigError, match=r"`kafka\.compression\.type` should be one of none, gzip"):
        found(conf)


def run(conf, *options, status=0):
    arguments = ["import", *map(str, conf.files), "--secrets", str(conf.secrets), *options]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == status, done.output
    return done


def test_the_command_writes_the_relay_s_file_and_no_other(conf, tmp_path):
    kafka(conf)
    conf.instance()
    file = tmp_path / "relay.yaml"
    done = run(conf, "--relay", str(file))
    assert yaml.safe_load(file.read_text()) == relay_of(conf)
    assert yaml.safe_load(done.stdout)["destination"] == "example"
    file.write_text("mine\n")
    again = run(conf, "--relay", str(file), status=1)
    assert "the file should be new, but cannot be written" in str(again.exception)
    assert file.read_text() == "mine\n"


def test_without_a_queue_no_relay_file_is_written(conf, tmp_path):
    conf.server()
    conf.instance()
    done = run(conf, "--relay", str(tmp_path / "relay.yaml"), status=1)
    assert "no message queue" in str(done.exception)
    assert not conf.secrets.exists()


@pytest.mark.parametrize("mode", ["kafka", "rabbitMQ"])
def test_a_relay_s_file_can_be_loaded(conf, mode):
    queue(conf, mode, rabbitmq__host="mq")
    assert build_relay(relay_of(conf), settings_of).destination == "example"


def queue(conf, mode, **changes):
    """Write files of a mode, with changes of any keys, `__` for a dot; None: the key is not there."""
    named = {key.replace("__", "."): value for key, value in changes.items()}
    entries = {**SERVER, "canal.serverMode": mode, **named}
    conf.write("canal.properties", {key: value for key, value in entries.items() if value is not None})
    conf.instance()


def to_do(conf):
    return {each.entry.key: each.text for each in found(conf).report.left_to_do}


@pytest.mark.parametrize("value", ["", None])
@pytest.mark.parametrize(
    ("mode", "key", "setting"),
    [("kafka", "kafka.bootstrap.servers", "servers"), ("rabbitMQ", "rabbitmq.host", "host")],
)
def test_a_missing_broker_is_left_to_do_and_the_relay_s_file_refused(conf, mode, key, setting, value):
    queue(conf, mode, **{key.replace(".", "__"): value})
    assert to_do(conf) == {key: f"canal's files name no broker: set `output.{setting}` of the relay"}
    assert "127.0.0.1" not in str(relay_of(conf)["output"])
    with pytest.raises(ConfigError, match=rf"`output\.{setting}` should be .* but is ''"):
        build_relay(relay_of(conf), settings_of)


#: canal.properties of 1.1.4, its keys of queues
OLD = {
    "canal.mq.servers": "kafka1:6667, PLAINTEXT://[2001:db8::1]:6667",
    "canal.mq.retries": "0",
    "canal.mq.batchSize": "16384",
    "canal.mq.maxRequestSize": "2097152",
    "canal.mq.lingerMs": "100",
    "canal.mq.bufferMemory": "33554432",
    "canal.mq.canalBatchSize": "50",
    "canal.mq.canalGetTimeout": "100",
    "canal.mq.flatMessage": "false",
    "canal.mq.compressionType": "gzip",
    "canal.mq.acks": "all",
    "canal.mq.properties.sasl.mechanism": "PLAIN",
    "canal.mq.properties.sasl.jaas.config": 'x required username="u" password="s3cret";',
    "canal.mq.producerGroup": "test",
    "canal.mq.transaction": "false",
}


def test_the_keys_of_canal_1_1_4_become_the_same_output(conf):
    conf.write("canal.properties", {"canal.serverMode": "kafka", **OLD})
    conf.instance()
    assert relay_of(conf)["output"] == {
        "kind": "kafka",
        "servers": "kafka1:6667,[2001:db8::1]:6667",
        "message_bytes_max": 2_097_152,
        "options": {"linger.ms": 100},
        "compression": "gzip",
        "mechanism": "PLAIN",
        "username": "u",
        "password_file": str(conf.secrets / "kafka.password"),
    }
    assert relay_of(conf)["format"] == "protobuf"
    assert "s3cret" not in "".join(map(str, found(conf).answers))
    assert set(to_do(conf)) <= {"canal.ip"}


def test_an_old_key_of_kafka_counts_before_the_new_one_as_in_canal(conf):
    queue(conf, "kafka", canal__mq__servers="old:9092", kafka__bootstrap__servers="new:9092")
    assert relay_of(conf)["output"]["servers"] == "old:9092"
    assert said(conf, "kafka.bootstrap.servers") == [
        (Kind.NOTE, "replaced by `canal.mq.servers`, as in canal")
    ]


@pytest.mark.parametrize(
    ("host", "output"),
    [
        ("mq", {"host": "mq"}),
        ("mq:5673", {"host": "mq", "port": 5673}),
        ("[2001:db8::1]:5673", {"host": "2001:db8::1", "port": 5673}),
        ("[2001:db8::1]", {"host": "2001:db8::1"}),
        ("2001:db8::1", {"host": "2001:db8::1"}),
        (
            "amqp://us%40er:s3cr%2Fet@mq:5673/sh%2Fop",
            {"host": "mq", "port": 5673, "username": "us@er", "virtual_host": "sh/op", "password": "s3cr/et"},
        ),
        ("amqps://u:s3cret@mq", {"host": "mq", "username": "u", "password": "s3cret"}),
    ],
)
@pytest.mark.parametrize("key", ["rabbitmq.host", "canal.mq.servers"])
def test_an_address_of_rabbitmq_is_read_as_people_write_it(conf, key, host, output):
    queue(conf, "rabbitMQ", **{key.replace(".", "__"): host.replace(":", "\\:")})
    result = found(conf)
    made = dict(result.destinations[0].relay["output"])
    result.secrets.write()
    if "password_file" in made:
        made["password"] = (conf.secrets / "rabbitmq.password").read_text().rstrip()
        del made["password_file"]
    assert made == {"kind": "rabbitmq", **output}
    assert "s3cr" not in "".join(map(str, result.answers))
    encrypted = host.startswith("amqps")
    assert (to_do(conf).get(key, "").startswith("set `output.ca`")) == encrypted


@pytest.mark.parametrize(
    "host", ["http://mq", "amqp://u:s3cret@", "mq1,mq2", "u:s3cret@mq:x", "amqp://u:s3cret@mq:99999"]
)
def test_a_malformed_address_is_refused_without_its_password(conf, host):
    queue(conf, "rabbitMQ", rabbitmq__host=host.replace(":", "\\:"))
    with pytest.raises(
        ConfigError, match=r"`rabbitmq.host` should be a host, `host:port`, or a URI"
    ) as error:
        found(conf)
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize("servers", ["kafka", "kafka:x", "u:s3cret@kafka:9092"])
def test_malformed_servers_of_kafka_are_refused(conf, servers):
    queue(conf, "kafka", kafka__bootstrap__servers=servers)
    with pytest.raises(ConfigError, match=r"`kafka.bootstrap.servers` should be `host:port`") as error:
        found(conf)
    assert "s3cret" not in str(error.value)


def test_what_canal_declares_at_rabbitmq_is_left_to_do(conf):
    names = {
        "host": "mq",
        "exchange": "changes",
        "queue": "q",
        "routingKey": "example",
        "deliveryMode": "topic",
    }
    queue(conf, "rabbitMQ", **{f"rabbitmq__{key}": value for key, value in names.items()})
    left = to_do(conf)
    assert set(left) == {"rabbitmq.queue", "rabbitmq.deliveryMode"}
    assert "queue q, durable, bound to exchange changes by example" in left["rabbitmq.queue"]
    assert "declares exchange changes of type topic, durable" in left["rabbitmq.deliveryMode"]


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("kafka.kerberos.enable", "true", "there is no login by Kerberos"),
        (
            "kafka.sasl.mechanism",
            "GSSAPI",
            "left out: a relay logs in by PLAIN, SCRAM-SHA-256, SCRAM-SHA-512",
        ),
        ("kafka.sasl.mechanism", "PLAIN", "set `output.username` and `password_file`"),
        ("kafka.client.id", "canal", "left out: set librdkafka's option"),
    ],
)
def test_what_a_relay_to_kafka_lacks_is_left_to_do(conf, key, value, text):
    queue(conf, "kafka", **{key.replace(".", "__"): value})
    assert to_do(conf)[key].startswith(text)


def test_access_keys_of_aliyun_s_rabbitmq_are_left_to_do(conf):
    queue(
        conf,
        "rabbitMQ",
        rabbitmq__host="mq",
        canal__aliyun__accessKey="s3cret",
        canal__aliyun__secretKey="s3cret",
    )
    texts = [text for _, text in said(conf, "canal.aliyun.accessKey")]
    assert any(text.startswith("there is no login by access keys") for text in texts)
    assert "s3cret" not in "".join(map(str, found(conf).answers))
