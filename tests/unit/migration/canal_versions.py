"""canal's two files as its versions ship them: keys with values, and those that are there as comments."""

from __future__ import annotations

from dataclasses import dataclass, field

from unit.migration.canal_files import INSTANCE, SERVER


@dataclass(frozen=True)
class Version:
    """One version's files."""

    server: dict[str, str]
    instance: dict[str, str]
    #: keys that are comments in either file, with values that somebody may give them
    comments: dict[str, str] = field(default_factory=dict)


def _without(entries: dict[str, str], *names: str) -> dict[str, str]:
    """Return the entries but these; a name that ends with a dot is a prefix."""
    return {
        key: value
        for key, value in entries.items()
        if not any(key == name or (name.endswith(".") and key.startswith(name)) for name in names)
    }


_STANDBY = {
    "canal.instance.standby.address": "10.0.0.9:3306",
    "canal.instance.standby.journal.name": "bin.000001",
    "canal.instance.standby.position": "4",
    "canal.instance.standby.timestamp": "1700000000000",
}
_TSDB = {
    "canal.instance.tsdb.url": "jdbc:mysql://127.0.0.1:3306/canal_tsdb",
    "canal.instance.tsdb.dbUsername": "canal",
    "canal.instance.tsdb.dbPassword": "canal",
}
_ADMIN = {
    "canal.admin.manager": "127.0.0.1:8089",
    "canal.admin.register.auto": "true",
    "canal.admin.register.cluster": "c",
    "canal.admin.register.name": "n",
}
_LOGIN = {"canal.user": "canal", "canal.passwd": "E3619321C1A937C46A0D8BD1DAC39F93B27D4458"}
_ROUTE = {
    "canal.mq.dynamicTopic": r"mytest1.user,mytest2\\..*,.*\\..*",
    "canal.mq.partitionsNum": "3",
    "canal.mq.partitionHash": r"test.table:id^name,.*\\..*",
}
_FIELDS = {
    "canal.instance.filter.field": "test1.t_product:id/subject/keywords",
    "canal.instance.filter.black.field": "test1.t_product:subject/product_image",
}
_SSL = {
    f"canal.instance.{role}.{key}": value
    for role in ("master", "standby")
    for key, value in {
        "sslMode": "VERIFY_CA",
        "tlsVersions": "TLSv1.2,TLSv1.3",
        "trustCertificateKeyStoreType": "JKS",
        "trustCertificateKeyStoreUrl": "file:/etc/trust.jks",
        "trustCertificateKeyStorePassword": "changeit",
        "clientCertificateKeyStoreType": "JKS",
        "clientCertificateKeyStoreUrl": "file:/etc/client.jks",
        "clientCertificateKeyStorePassword": "changeit",
    }.items()
}
#: message queues until 1.1.4
_OLD_QUEUE = {
    "canal.mq.servers": "127.0.0.1:6667",
    "canal.mq.retries": "0",
    "canal.mq.batchSize": "16384",
    "canal.mq.maxRequestSize": "1048576",
    "canal.mq.lingerMs": "100",
    "canal.mq.bufferMemory": "33554432",
    "canal.mq.canalBatchSize": "50",
    "canal.mq.canalGetTimeout": "100",
    "canal.mq.flatMessage": "true",
    "canal.mq.compressionType": "none",
    "canal.mq.acks": "all",
}

_SERVER_8 = SERVER
_SERVER_6 = _without(SERVER, "rabbitmq.queue", "rabbitmq.routingKey")
_SERVER_5 = _without(_SERVER_6, "pulsarmq.")
_SERVER_4 = {
    **_without(
        _SERVER_5,
        *("canal.auto.reset.latest.pos.mode", "canal.instance.filter.dml.", "canal.aliyun.uid"),
        *("canal.mq.", "kafka.", "rocketmq.", "rabbitmq."),
    ),
    **_OLD_QUEUE,
    "canal.mq.producerGroup": "test",
    "canal.mq.accessChannel": "local",
    "canal.mq.kafka.kerberos.enable": "false",
    "canal.mq.kafka.kerberos.krb5FilePath": '"../conf/kerberos/krb5.conf"',
    "canal.mq.kafka.kerberos.jaasFilePath": '"../conf/kerberos/jaas.conf"',
}
_SERVER_3 = {
    "canal.id": "1",
    **_without(
        _SERVER_4,
        *("canal.register.ip", "canal.metrics.pull.port", "canal.admin.", "canal.aliyun.", "canal.mq."),
        *("canal.instance.tsdb.", "canal.instance.global.manager.address"),
    ),
}
_SERVER_0 = {
    **_without(_SERVER_3, "canal.serverMode", "canal.instance.memory.rawEntry"),
    "canal.metrics.pull.port": "11112",
    **{key: value for key, value in SERVER.items() if key.startswith("canal.instance.tsdb.")},
    "canal.instance.rds.accesskey": "",
    "canal.instance.rds.secretkey": "",
}

_INSTANCE_7 = _without(INSTANCE, "canal.instance.master.sslMode")
_INSTANCE_4 = _without(_INSTANCE_7, "canal.instance.multi.stream.on")
_INSTANCE_3 = {
    "canal.instance.mysql.slaveId": "1234",
    **_without(_INSTANCE_4, "canal.instance.rds.accesskey", "canal.instance.rds.secretkey", "canal.mq.topic"),
    "canal.instance.filter.black.regex": "",
}
_INSTANCE_0 = {
    **{
        key: INSTANCE[f"canal.instance.{key.removeprefix('canal.instance.')}"]
        for key in (
            "canal.instance.master.address",
            "canal.instance.master.journal.name",
            "canal.instance.master.position",
            "canal.instance.master.timestamp",
            "canal.instance.dbUsername",
            "canal.instance.dbPassword",
            "canal.instance.connectionCharset",
            "canal.instance.filter.regex",
        )
    },
    "canal.instance.mysql.slaveId": "1234",
    "canal.instance.defaultDatabaseName": "",
}

VERSIONS = {
    "1.0.25": Version(_SERVER_0, _INSTANCE_0, _STANDBY),
    "1.1.3": Version(
        _SERVER_3,
        _INSTANCE_3,
        {
            "canal.manager.jdbc.url": "jdbc:mysql://127.0.0.1:3306/canal_manager?useUnicode=true",
            "canal.manager.jdbc.username": "root",
            "canal.manager.jdbc.password": "121212",
            "canal.metrics.pull.port": "11112",
            "canal.instance.parser.parallelThreadSize": "16",
            **{key: value for key, value in SERVER.items() if key.startswith("canal.instance.tsdb.")},
            "canal.aliyun.accessKey": "k",
            "canal.aliyun.secretKey": "k",
            "canal.instance.global.manager.address": "127.0.0.1:1099",
            **_OLD_QUEUE,
            "canal.mq.transaction": "false",
            "canal.mq.properties.client.id": "canal",
            "canal.mq.topic": "example",
            "canal.instance.rds.accesskey": "k",
            "canal.instance.rds.secretkey": "k",
            **_STANDBY,
            "canal.instance.standby.gtid": "",
            **_ROUTE,
        },
    ),
    "1.1.4": Version(
        _SERVER_4,
        _INSTANCE_4,
        {
            **_LOGIN,
            "canal.admin.manager": "127.0.0.1:8089",
            "canal.mq.namespace": "n",
            "canal.mq.enableMessageTrace": "true",
            "canal.mq.customizedTraceTopic": "t",
            "canal.mq.parallelThreadSize": "8",
            "canal.mq.vhost": "/",
            "canal.mq.exchange": "e",
            "canal.mq.username": "u",
            "canal.mq.password": "p",
            "canal.mq.aliyunuid": "1",
            **_STANDBY,
            **_TSDB,
            **_ROUTE,
            **_FIELDS,
        },
    ),
    "1.1.5": Version(_SERVER_5, _INSTANCE_4, {**_LOGIN, **_ADMIN, **_STANDBY, **_TSDB, **_ROUTE, **_FIELDS}),
    "1.1.7": Version(
        _SERVER_6,
        _INSTANCE_7,
        {
            **_LOGIN,
            **_ADMIN,
            **_STANDBY,
            **_TSDB,
            **_ROUTE,
            **_FIELDS,
            "canal.mq.dynamicTopicPartitionNum": "test.*:4,mycanal:6",
            "canal.mq.enableDynamicQueuePartition": "false",
        },
    ),
    "1.1.8": Version(_SERVER_8, INSTANCE, {**_LOGIN, **_ADMIN, **_STANDBY, **_TSDB, **_FIELDS, **_SSL}),
}
#: what canal's code reads, or other files of its conf have, besides
OTHERS = {
    "canal.destinations.expr": "example",
    "canal.socketChannel": "netty",
    "canal.instance.example.lazy": "true",
    "canal.instance.example.mode": "spring",
    "canal.instance.connectionCharsetNumber": "33",
    "canal.instance.rds.open.url": "https://rds.aliyuncs.com/",
    "canal.instance.rds.open.accesskey": "k",
    "canal.instance.rds.open.secretkey": "k",
    "canal.instance.rds.startTime": "1",
    "canal.instance.rds.endTime": "2",
    "canal.instance.parser.directory": "/data/binlog",
    "canal.aliyun.accesskey": "k",
    "canal.aliyun.secretkey": "k",
    "canal.instance.oceanbase.rsList": "127.0.0.1:2882:2881",
    "canal.instance.oceanbase.logproxy.address": "127.0.0.1:2983",
    "canal.instance.parser.excludeTenantInDbName": "true",
    "pulsarmq.adminServerUrl": "http://pulsar:8080",
    "rocketmq.batch.size": "50",
    "rabbitmq.rabbitmq.resource.ownerId": "1",
}
