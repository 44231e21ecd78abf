"""Keys: every key of canal's files, and what is said of it where nothing more is known of its value.

The names are those of canal.properties and instance.properties of canal 1.0.25 to 1.1.9, of its
group-instance.xml, and what its code reads besides. A key that is neither here nor begins as what canal
passes on is unknown. Keys that become settings by a table are in that table only.
"""

from __future__ import annotations

import re
from typing import Final

from canal_group.conf.sentence import nearest
from canal_group.programs.migration.filters import LEFT_OUT
from canal_group.programs.migration.queues.kafka import OLD_KEYS
from canal_group.programs.migration.queues.relay import ROUTE
from canal_group.programs.migration.starts import START_KEYS
from canal_group.programs.migration.stream import DETECTING, SETTINGS

_NO_NETWORK = "no setting: the system chooses the buffers of a connection"
_NO_ADMIN = "no setting: there is no admin server; `serve --http` has a page and a REST API for operators"
_PARSER = "no setting: one compiled parser a shard reads as fast as its processor"
_HISTORY = "no setting: a schema history is always kept beside the cursors, without a database of its own"
_OSS = (
    "no setting: binlogs that only Aliyun's object store has are not read; a shard may read files (`files`)"
)
_START = "`shards[].start`: no position is given, so a shard without a cursor begins at its source's end"
_STANDBY_START = "no setting: a standby is read from where the shard is, not from a position of its own"
_SSL = "`shards[].ssl`"
_RELAY = "settings of a relay: see --relay"
_KAFKA = "an option of Kafka's client: it counts if it has a value, and `canal.serverMode` is kafka"
_RABBIT = "`output` of a relay: it counts if it has a value, and `canal.serverMode` is rabbitMQ"
_ROCKET = "no setting: there is no relay to RocketMQ"
_THREADS = "no setting: one thread of a relay keeps its broker busy"
_MANAGER = "canal reads its configuration from that database: save it as files, and import those"
_OPEN_API = (
    "canal downloads binlogs by RDS's API and parses the files: download them, and set `shards[].files`,"
    " which is read instead of a server"
)
_OCEANBASE = "OceanBase is not read: point the shard at MySQL or MariaDB"
_PULSAR = "no setting: there is no relay to Pulsar"

#: key -> what is said of it
KEYS: Final[dict[str, str]] = {
    **{key: setting.meaning for key, setting in {**SETTINGS, **DETECTING}.items()},
    **{key: f"`filter.tables[].keep`: {', '.join(kinds)}" for key, kinds in LEFT_OUT.items()},
    **dict.fromkeys(ROUTE, _RELAY),
    **dict.fromkeys(OLD_KEYS, _KAFKA),
    # ---- canal.properties: the server
    "canal.id": "no setting: servers are told apart by address",
    "canal.ip": "`canal.host`, where canal's clients connect",
    "canal.register.ip": "`gateway.advertise`, the address that is published in ZooKeeper",
    "canal.port": "`canal.port`, where canal's clients connect",
    "canal.metrics.pull.port": "an option of the command: `serve --http 127.0.0.1:11112`",
    "canal.user": "`canal.user`",
    "canal.passwd": "`canal.password_file`",
    "canal.admin.manager": _NO_ADMIN,
    "canal.admin.port": _NO_ADMIN,
    "canal.admin.user": _NO_ADMIN,
    "canal.admin.passwd": _NO_ADMIN,
    "canal.admin.register.auto": _NO_ADMIN,
    "canal.admin.register.cluster": _NO_ADMIN,
    "canal.admin.register.name": _NO_ADMIN,
    "canal.zkServers": "`coordination.hosts`",
    "canal.zookeeper.flush.period": "`cursor.flush_s`",
    "canal.withoutNetty": "`canal`: without that mapping there is no listener for canal's clients",
    "canal.serverMode": "`canal` for tcp; for a message queue a relay: see --relay",
    "canal.file.data.dir": "`cursor.folder`, by default `data`; canal's own meta.dat: see --meta",
    "canal.file.flush.period": "`cursor.flush_s`; by default a cursor is written before its ack is answered",
    "canal.instance.memory.rawEntry": "no setting: rows are columns here",
    "canal.instance.detecting.enable": "no setting: a shard with several `hosts` is always watched",
    "canal.instance.detecting.heartbeatHaEnable": "`shards[].hosts`: a shard leaves a failed one",
    "canal.instance.transaction.size": "no setting: transactions of any size are delivered as one",
    "canal.instance.network.receiveBufferSize": _NO_NETWORK,
    "canal.instance.network.sendBufferSize": _NO_NETWORK,
    "canal.instance.filter.druid.ddl": "no setting: DDL is always parsed",
    "canal.instance.filter.query.dcl": "`filter.tables[].keep`: without `dcl` and `query`, either way",
    "canal.instance.filter.query.dml": "no setting: the texts of row changes are not delivered",
    "canal.instance.filter.table.error": "no setting: rows of a table that is not known stop their shard",
    "canal.instance.filter.transaction.entry": "`canal.transaction_entries`",
    "canal.instance.binlog.format": "no setting: ROW is required, and `canal-group check` says so",
    "canal.instance.binlog.image": "no setting: every row image is read; columns that it lacks are absent",
    "canal.instance.parser.parallel": _PARSER,
    "canal.instance.parser.parallelThreadSize": _PARSER,
    "canal.instance.parser.parallelBufferSize": _PARSER,
    "canal.instance.tsdb.enable": _HISTORY,
    "canal.instance.tsdb.dir": _HISTORY,
    "canal.instance.tsdb.url": _HISTORY,
    "canal.instance.tsdb.dbUsername": _HISTORY,
    "canal.instance.tsdb.dbPassword": _HISTORY,
    "canal.instance.tsdb.snapshot.interval": _HISTORY,
    "canal.instance.tsdb.snapshot.expire": _HISTORY,
    "canal.instance.tsdb.spring.xml": _HISTORY,
    "canal.destinations": "`destination` of each instance file; `serve FOLDER` serves all files of a folder",
    "canal.destinations.expr": "`destination` of each instance file",
    "canal.conf.dir": "no setting: `serve -c` names the files, or their folder",
    "canal.auto.scan": "no setting: `serve` always watches its instance files",
    "canal.auto.scan.interval": "no setting: `serve` always watches its instance files",
    "canal.auto.reset.latest.pos.mode": "`merge.purged`",
    "canal.instance.global.mode": "no setting: instances are described by files",
    "canal.instance.global.lazy": "no setting: an instance starts with its server",
    "canal.instance.global.manager.address": _NO_ADMIN,
    "canal.instance.global.spring.xml": "`preset`",
    "canal.socketChannel": "no setting: connections to sources have one implementation",
    "canal.aliyun.accessKey": _OSS,
    "canal.aliyun.secretKey": _OSS,
    "canal.aliyun.uid": _OSS,
    "canal.aliyun.accesskey": _OSS,
    "canal.aliyun.secretkey": _OSS,
    # ---- canal.properties: message queues
    "canal.mq.flatMessage": _RELAY,
    "canal.mq.canalBatchSize": _RELAY,
    "canal.mq.canalGetTimeout": _RELAY,
    "canal.mq.accessChannel": _ROCKET,
    "canal.mq.send.thread.size": _THREADS,
    "canal.mq.build.thread.size": _THREADS,
    "canal.mq.parallelThreadSize": _THREADS,
    "canal.mq.transaction": "no setting: a relay to Kafka publishes each batch in a transaction",
    "canal.mq.producerGroup": _ROCKET,
    "canal.mq.enableMessageTrace": _ROCKET,
    "canal.mq.customizedTraceTopic": _ROCKET,
    "canal.mq.namespace": _ROCKET,
    "canal.mq.vhost": _RABBIT,
    "canal.mq.exchange": _RABBIT,
    "canal.mq.username": _RABBIT,
    "canal.mq.password": _RABBIT,
    "canal.mq.aliyunuid": _RABBIT,
    "rabbitmq.host": _RABBIT,
    "rabbitmq.virtual.host": _RABBIT,
    "rabbitmq.exchange": _RABBIT,
    "rabbitmq.username": _RABBIT,
    "rabbitmq.password": _RABBIT,
    "rabbitmq.queue": _RABBIT,
    "rabbitmq.routingKey": _RABBIT,
    "rabbitmq.deliveryMode": _RABBIT,
    "rabbitmq.rabbitmq.resource.ownerId": _RABBIT,
    # ---- instance.properties
    "canal.instance.mysql.slaveId": "`shards[].server_id`; it is computed unless set",
    "canal.instance.gtidon": "`shards[].start_by`",
    "canal.instance.rds.accesskey": _OSS,
    "canal.instance.rds.secretkey": _OSS,
    "canal.instance.rds.instanceId": _OSS,
    "canal.instance.multi.stream.on": "no setting: the streams of PolarDB-X are not read",
    "canal.instance.dbUsername": "`shards[].user`",
    "canal.instance.dbPassword": "`shards[].password_file`; it is empty, and so no password is used",
    "canal.instance.pwdPublicKey": "no setting: it decrypts dbPassword, if `enableDruid` is true",
    "canal.instance.enableDruid": "no setting: passwords are in files, not encrypted",
    "canal.instance.connectionCharset": "no setting: texts are decoded by the charset of their column",
    "canal.instance.connectionCharsetNumber": "no setting: texts are decoded by the charset of their column",
    "canal.instance.defaultDatabaseName": "no setting: no database is chosen for the connection",
    "canal.instance.filter.regex": "`filter.white`",
    "canal.instance.filter.black.regex": "`filter.black`",
    "canal.instance.filter.field": "`filter.tables[].white_columns`",
    "canal.instance.filter.black.field": "`filter.tables[].black_columns`",
    "canal.mq.enableDynamicQueuePartition": _RELAY,
}

#: of each source: `canal.instance.master.`, `canal.instance.standby.`, and with a number in a group's file
SOURCE_KEYS: Final[dict[str, str]] = {
    **dict.fromkeys(START_KEYS, _START),
    "address": "`shards[].host` and `port`, or `hosts` with a standby; it is empty, and so there is none",
    "dbUsername": "`shards[].user` of a group's source; for others `dbUsername` counts",
    "dbPassword": "`shards[].password_file` of a group's source; for others `dbPassword` counts",
    "sslMode": _SSL,
    "tlsVersions": "no setting: the system's library chooses the version, TLS 1.2 or later",
    "trustCertificateKeyStoreType": _SSL,
    "trustCertificateKeyStoreUrl": "`shards[].ssl.ca`",
    "trustCertificateKeyStorePassword": "no setting: `ssl.ca` is a file of certificates, without a password",
    "clientCertificateKeyStoreType": _SSL,
    "clientCertificateKeyStoreUrl": "`shards[].ssl.cert` and `ssl.key`",
    "clientCertificateKeyStorePassword": "no setting: `ssl.key` is a file without a password",
}
_SOURCE = re.compile(r"canal\.instance\.(?P<role>master|standby)(?P<number>\d*)\.(?P<key>.+)")
#: settings of one destination in canal.properties
_OF_DESTINATION = re.compile(
    r"canal\.instance\.(?P<destination>.+)\.(?P<key>mode|lazy|manager\.address|spring\.xml)"
)
#: prefixes of keys that canal passes on
_PASSED = {"kafka.": _KAFKA, "canal.mq.properties.": _KAFKA, "rocketmq.": _ROCKET, "pulsarmq.": _PULSAR}
#: an account of one source of a group
_OF_SOURCE = re.compile(r"canal\.instance\.(?P<key>dbUsername|dbPassword)\d+")
#: prefixes of keys that ask for something, if they have a value
_ASKING: Final = {
    "canal.manager.jdbc.": _MANAGER,
    "canal.instance.rds.open.": _OPEN_API,
    "canal.instance.rds.startTime": _OPEN_API,
    "canal.instance.rds.endTime": _OPEN_API,
    "canal.instance.parser.directory": _OPEN_API,
    "canal.instance.oceanbase.": _OCEANBASE,
    "canal.instance.parser.excludeTenantInDbName": _OCEANBASE,
}
_QUEUES: Final = ("canal.mq.", "kafka.", "rabbitmq.", "rocketmq.", "pulsarmq.")


def meaning(key: str) -> str | None:
    """Return the report's text on a key; None: canal has no such key."""
    if key in KEYS:
        return KEYS[key]
    source = _SOURCE.fullmatch(key)
    if source is not None and source["key"] in SOURCE_KEYS:
        own_start = SOURCE_KEYS[source["key"]] == _START and source["role"] == "standby"
        return _STANDBY_START if own_start else SOURCE_KEYS[source["key"]]
    one = _OF_DESTINATION.fullmatch(key)
    if one is not None:
        return KEYS[f"canal.instance.global.{one['key']}"]
    account = _OF_SOURCE.fullmatch(key)
    if account is not None:
        return SOURCE_KEYS[account["key"]]
    if left_to_do(key) is not None:
        return "no setting: it is empty"
    return next((text for prefix, text in _PASSED.items() if key.startswith(prefix)), None)


def left_to_do(key: str) -> str | None:
    """Return the report's text on a key that asks for something if it has a value; None: it does not."""
    return next((text for prefix, text in _ASKING.items() if key.startswith(prefix)), None)


def is_of_queues(key: str) -> bool:
    """Return whether a key counts only if canal publishes to a message queue."""
    return key.startswith(_QUEUES)


def unknown(key: str) -> str:
    """Return the report's text on a key that canal does not have."""
    names = [*KEYS, *(f"canal.instance.master.{inner}" for inner in SOURCE_KEYS)]
    hint = nearest(key, names)
    like = f" ({hint})" if hint.startswith("nearest") else ""
    return f"canal has no such key{like}; it is left out"
