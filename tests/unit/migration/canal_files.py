"""canal's two files as it ships them, by key and value, and folders of instances made of them."""

from __future__ import annotations

from pathlib import Path

SERVER = {
    "canal.ip": "",
    "canal.register.ip": "",
    "canal.port": "11111",
    "canal.metrics.pull.port": "11112",
    "canal.admin.port": "11110",
    "canal.admin.user": "admin",
    "canal.admin.passwd": "0123456789ABCDEF0123456789ABCDEF01234567",
    "canal.zkServers": "",
    "canal.zookeeper.flush.period": "1000",
    "canal.withoutNetty": "false",
    "canal.serverMode": "tcp",
    "canal.file.data.dir": "${canal.conf.dir}",
    "canal.file.flush.period": "1000",
    "canal.instance.memory.buffer.size": "16384",
    "canal.instance.memory.buffer.memunit": "1024",
    "canal.instance.memory.batch.mode": "MEMSIZE",
    "canal.instance.memory.rawEntry": "true",
    "canal.instance.detecting.enable": "false",
    "canal.instance.detecting.sql": "select 1",
    "canal.instance.detecting.interval.time": "3",
    "canal.instance.detecting.retry.threshold": "3",
    "canal.instance.detecting.heartbeatHaEnable": "false",
    "canal.instance.transaction.size": "1024",
    "canal.instance.fallbackIntervalInSeconds": "60",
    "canal.instance.network.receiveBufferSize": "16384",
    "canal.instance.network.sendBufferSize": "16384",
    "canal.instance.network.soTimeout": "30",
    "canal.instance.filter.druid.ddl": "true",
    "canal.instance.filter.query.dcl": "false",
    "canal.instance.filter.query.dml": "false",
    "canal.instance.filter.query.ddl": "false",
    "canal.instance.filter.table.error": "false",
    "canal.instance.filter.rows": "false",
    "canal.instance.filter.transaction.entry": "false",
    "canal.instance.filter.dml.insert": "false",
    "canal.instance.filter.dml.update": "false",
    "canal.instance.filter.dml.delete": "false",
    "canal.instance.binlog.format": "ROW,STATEMENT,MIXED",
    "canal.instance.binlog.image": "FULL,MINIMAL,NOBLOB",
    "canal.instance.get.ddl.isolation": "false",
    "canal.instance.parser.parallel": "true",
    "canal.instance.parser.parallelBufferSize": "256",
    "canal.instance.tsdb.enable": "true",
    "canal.instance.tsdb.dir": "${canal.file.data.dir:../conf}/${canal.instance.destination:}",
    "canal.instance.tsdb.url": "jdbc:h2:${canal.instance.tsdb.dir}/h2;CACHE_SIZE=1000;MODE=MYSQL;",
    "canal.instance.tsdb.dbUsername": "canal",
    "canal.instance.tsdb.dbPassword": "canal",
    "canal.instance.tsdb.snapshot.interval": "24",
    "canal.instance.tsdb.snapshot.expire": "360",
    "canal.destinations": "example",
    "canal.conf.dir": "../conf",
    "canal.auto.scan": "true",
    "canal.auto.scan.interval": "5",
    "canal.auto.reset.latest.pos.mode": "false",
    "canal.instance.tsdb.spring.xml": "classpath:spring/tsdb/h2-tsdb.xml",
    "canal.instance.global.mode": "spring",
    "canal.instance.global.lazy": "false",
    "canal.instance.global.manager.address": "${canal.admin.manager:}",
    "canal.instance.global.spring.xml": "classpath:spring/file-instance.xml",
    "canal.aliyun.accessKey": "",
    "canal.aliyun.secretKey": "",
    "canal.aliyun.uid": "",
    "canal.mq.flatMessage": "true",
    "canal.mq.canalBatchSize": "50",
    "canal.mq.canalGetTimeout": "100",
    "canal.mq.accessChannel": "local",
    "canal.mq.database.hash": "true",
    "canal.mq.send.thread.size": "30",
    "canal.mq.build.thread.size": "8",
    "kafka.bootstrap.servers": "127.0.0.1:9092",
    "kafka.acks": "all",
    "kafka.compression.type": "none",
    "kafka.batch.size": "16384",
    "kafka.linger.ms": "1",
    "kafka.max.request.size": "1048576",
    "kafka.buffer.memory": "33554432",
    "kafka.max.in.flight.requests.per.connection": "1",
    "kafka.retries": "0",
    "kafka.kerberos.enable": "false",
    "kafka.kerberos.krb5.file": "../conf/kerberos/krb5.conf",
    "kafka.kerberos.jaas.file": "../conf/kerberos/jaas.conf",
    "rocketmq.producer.group": "test",
    "rocketmq.enable.message.trace": "false",
    "rocketmq.customized.trace.topic": "",
    "rocketmq.namespace": "",
    "rocketmq.namesrv.addr": "127.0.0.1:9876",
    "rocketmq.retry.times.when.send.failed": "0",
    "rocketmq.vip.channel.enabled": "false",
    "rocketmq.tag": "",
    "rabbitmq.host": "",
    "rabbitmq.virtual.host": "",
    "rabbitmq.exchange": "",
    "rabbitmq.username": "",
    "rabbitmq.password": "",
    "rabbitmq.queue": "",
    "rabbitmq.routingKey": "",
    "rabbitmq.deliveryMode": "",
    "pulsarmq.serverUrl": "",
    "pulsarmq.roleToken": "",
    "pulsarmq.topicTenantPrefix": "",
}

INSTANCE = {
    "canal.instance.gtidon": "false",
    "canal.instance.rds.accesskey": "",
    "canal.instance.rds.secretkey": "",
    "canal.instance.rds.instanceId": "",
    "canal.instance.master.address": "127.0.0.1:3306",
    "canal.instance.master.journal.name": "",
    "canal.instance.master.position": "",
    "canal.instance.master.timestamp": "",
    "canal.instance.master.gtid": "",
    "canal.instance.multi.stream.on": "false",
    "canal.instance.master.sslMode": "DISABLED",
    "canal.instance.tsdb.enable": "true",
    "canal.instance.dbUsername": "canal",
    "canal.instance.dbPassword": "canal",
    "canal.instance.connectionCharset": "UTF-8",
    "canal.instance.enableDruid": "false",
    "canal.instance.filter.regex": r".*\\..*",
    "canal.instance.filter.black.regex": r"mysql\\.slave_.*",
    "canal.mq.topic": "example",
    "canal.mq.partition": "0",
}


def text_of(entries):
    """Return the text of a file; values are in Java's syntax already."""
    return "".join(f"{key} = {value}\n" for key, value in entries.items())


class Conf:
    """A folder as canal's `conf`.

    Args:
        folder: an empty folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.secrets = folder / "secrets"
        self.files: list[Path] = []

    def server(self, **changes: str) -> Path:
        """Write canal.properties, with changes by `key__key` for `canal.key.key`."""
        return self.write("canal.properties", {**SERVER, **_keys(changes)})

    def instance(self, name: str = "example", **changes: str) -> Path:
        """Write an instance's file, with changes by `key__key` for `canal.instance.key.key`."""
        return self.write(f"{name}/instance.properties", {**INSTANCE, **_keys(changes, "canal.instance.")})

    def write(self, name: str, entries: dict[str, str]) -> Path:
        """Write a file of these entries, and remember it."""
        file = self.folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text_of(entries))
        self.files.append(file)
        return file


def _keys(changes, prefix="canal."):
    return {prefix + key.replace("__", "."): value for key, value in changes.items()}
