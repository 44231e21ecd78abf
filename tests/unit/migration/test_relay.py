"""canal's message queue mode becomes the settings of a relay."""

import pytest
import yaml
from typer.testing import CliRunner
from unit.migration.canal_files import Conf

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
    assert found(conf).relay == {
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
    assert "canal" not in found(conf).values


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
    relay = found(conf).relay
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
    output = found(conf).relay["output"]
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
    assert found(conf).relay["output"] == {
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
    assert found(conf).relay is None
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
    assert yaml.safe_load(file.read_text()) == found(conf).relay
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
    conf.server(serverMode=mode)
    conf.instance()
    assert build_relay(found(conf).relay, settings_of).destination == "example"
