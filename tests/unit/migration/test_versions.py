"""canal's own files of each version: every key has an answer, and what asks for something is known."""

import pytest
from unit.migration.canal_files import Conf
from unit.migration.canal_versions import OTHERS, VERSIONS

from canal_group.programs.migration.imported import imported

#: keys that ask for something as soon as they have a value, whatever else is set
ASKING = {
    "canal.admin.manager",
    "canal.manager.jdbc.url",
    "canal.manager.jdbc.username",
    "canal.manager.jdbc.password",
    "canal.aliyun.accessKey",
    "canal.instance.rds.accesskey",
    "canal.instance.standby.address",
    "canal.instance.master.trustCertificateKeyStoreUrl",
    "canal.instance.master.clientCertificateKeyStoreUrl",
    "canal.instance.master.sslMode",
}


@pytest.fixture
def conf(tmp_path):
    return Conf(tmp_path)


def found(conf, server, instance):
    conf.write("canal.properties", server)
    conf.write("example/instance.properties", instance)
    result = imported(conf.files, destination=None, secrets=conf.secrets)
    answered = {(each.entry.file, each.entry.key) for each in result.answers}
    assert answered == {(str(file.file), key) for file in result.files for key in file.entries}
    assert [each for each in result.answers if "no such key" in each.text] == []
    return result


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_s_own_files_leave_the_open_port_to_do_and_nothing_else(conf, version):
    files = VERSIONS[version]
    result = found(conf, files.server, files.instance)
    assert {each.entry.key for each in result.report.left_to_do} == {"canal.ip"}
    assert result.destinations[0].values["shards"][0]["host"] == "127.0.0.1"
    assert result.destinations[0].relay is None


@pytest.mark.parametrize("version", VERSIONS)
def test_the_keys_that_are_comments_of_a_version_are_known_too(conf, version):
    files = VERSIONS[version]
    result = found(conf, files.server, {**files.instance, **files.comments})
    left = {each.entry.key for each in result.report.left_to_do}
    given = {**files.server, **files.instance, **files.comments}
    # canal admits everybody from everywhere, where no login is set.
    open_port = set() if "canal.user" in files.comments else {"canal.ip"}
    assert left == {key for key in ASKING if given.get(key)} | open_port


@pytest.mark.parametrize("mode", ["kafka", "rabbitMQ", "rocketMQ", "pulsarMQ"])
@pytest.mark.parametrize("version", [each for each in VERSIONS if each != "1.0.25"])
def test_a_version_s_own_files_are_known_with_each_queue(conf, version, mode):
    files = VERSIONS[version]
    comments = {key: value for key, value in files.comments.items() if key.startswith("canal.mq.")}
    result = found(conf, {**files.server, "canal.serverMode": mode}, {**files.instance, **comments})
    left = {each.entry.key for each in result.report.left_to_do}
    if mode in ("rocketMQ", "pulsarMQ"):
        assert (left, result.destinations[0].relay) == ({"canal.serverMode"}, None)
        return
    is_old = "canal.mq.servers" in {**files.server, **comments}
    broker = {"kafka": "kafka.bootstrap.servers", "rabbitMQ": "rabbitmq.host"}[mode]
    has_broker = is_old or (mode == "kafka" and "kafka.bootstrap.servers" in files.server)
    assert left == (set() if has_broker else {broker}) | (
        {"canal.mq.properties.client.id"} if mode == "kafka" and version == "1.1.3" else set()
    )
    output = result.destinations[0].relay["output"]
    address = output["servers"] if mode == "kafka" else output["host"]
    assert bool(address) == has_broker


def test_what_canal_reads_besides_is_known(conf):
    files = VERSIONS["1.1.8"]
    result = found(conf, files.server, {**files.instance, **OTHERS})
    left = {each.entry.key for each in result.report.left_to_do}
    assert left == {"canal.ip", "canal.aliyun.accesskey"} | {
        key
        for key in OTHERS
        if key.startswith(("canal.instance.rds.", "canal.instance.oceanbase.", "canal.instance.parser."))
    }
