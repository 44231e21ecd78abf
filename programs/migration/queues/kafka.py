"""Kafka: canal's `kafka.` keys, which are options of Kafka's Java client, as the output of a relay.

Until canal 1.1.4 they were `canal.mq.` keys, and `canal.mq.properties.` for all others. Later versions still
take them, before the new ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final, get_args

from canal_group.conf.relay.kafka_settings import KafkaSettings
from canal_group.programs.migration.canal_files.properties import Entry
from canal_group.programs.migration.canal_files.view import View
from canal_group.programs.migration.queues.broker import servers_of
from canal_group.programs.migration.report import Report
from canal_group.programs.migration.secrets import Secrets

_PREFIX: Final = "kafka."
_OLD_PREFIX: Final = "canal.mq.properties."
#: key until canal 1.1.4 -> option of Kafka's client
OLD_KEYS: Final = {
    "canal.mq.servers": "bootstrap.servers",
    "canal.mq.acks": "acks",
    "canal.mq.compressionType": "compression.type",
    "canal.mq.retries": "retries",
    "canal.mq.batchSize": "batch.size",
    "canal.mq.lingerMs": "linger.ms",
    "canal.mq.maxRequestSize": "max.request.size",
    "canal.mq.bufferMemory": "buffer.memory",
    "canal.mq.kafka.kerberos.enable": "kerberos.enable",
    "canal.mq.kafka.kerberos.krb5FilePath": "kerberos.krb5.file",
    "canal.mq.kafka.kerberos.jaasFilePath": "kerberos.jaas.file",
    "canal.mq.kafka.kerberos.krb5.file": "kerberos.krb5.file",
    "canal.mq.kafka.kerberos.jaas.file": "kerberos.jaas.file",
}
_COMPRESSIONS: Final = get_args(KafkaSettings.model_fields["compression"].annotation)
_MECHANISMS: Final = get_args(KafkaSettings.model_fields["mechanism"].annotation)
_DECIDED: Final = frozenset(
    {"acks", "retries", "max.in.flight.requests.per.connection", "buffer.memory", "batch.size"}
)
_LOGIN = re.compile(r"""\b(username|password)\s*=\s*["']([^"']*)["']""")


@dataclass(frozen=True, slots=True)
class Kafka:
    """Makes `output` of kind `kafka`.

    Args:
        view: what canal's files say.
        report: takes the answers.
        secrets: takes the password.
    """

    view: View
    report: Report
    secrets: Secrets
    _output: dict[str, Any] = field(default_factory=dict)

    def make(self) -> dict[str, Any]:
        """Return the settings.

        Raises:
            ConfigError: a value cannot be used.
        """
        # A relay refuses the file until there are servers.
        self._output.update(kind="kafka", servers="")
        options = self._options()
        kerberos = options.get("kerberos.enable")
        for name, entry in options.items():
            self._take(name, entry, kerberos=kerberos is not None and self.view.flag(kerberos.key))
        if not self._output["servers"]:
            self.report.act(
                self.view.entry_of(f"{_PREFIX}bootstrap.servers"),
                "canal's files name no broker: set `output.servers` of the relay",
            )
        if "mechanism" in self._output and "username" not in self._output:
            self.report.act(options["sasl.mechanism"], "set `output.username` and `password_file`")
        return self._output

    def _options(self) -> dict[str, Entry]:
        """Return the entries by option; of two that mean the same, the old one counts, as in canal."""
        options = dict[str, Entry]()
        for key in sorted(self.view.all_keys, key=lambda each: not each.startswith(_PREFIX)):
            prefix = next((each for each in (_PREFIX, _OLD_PREFIX) if key.startswith(each)), None)
            name = OLD_KEYS.get(key) if prefix is None else key.removeprefix(prefix)
            entry = self.view.given(key)
            if not name or entry is None:
                continue
            if name in options:
                self.report.note(options[name], f"replaced by `{key}`, as in canal")
            options[name] = entry
        return options

    def _take(self, name: str, entry: Entry, *, kerberos: bool) -> None:
        text = self.view.text(entry.key) or ""
        if name == "bootstrap.servers":
            self._output["servers"] = servers_of(entry, text)
            self.report.setting(entry, f"`output.servers: {self._output['servers']}`")
        elif name in _DECIDED:
            self.report.note(entry, "no setting: a relay publishes in transactions, which decide it")
        elif name == "sasl.mechanism" and text not in _MECHANISMS:
            self.report.act(
                entry, f"left out: a relay logs in by {', '.join(_MECHANISMS)}; set `output.mechanism`"
            )
        elif name in ("compression.type", "max.request.size", "sasl.mechanism", "linger.ms"):
            self._set(name, entry, text)
        elif name == "sasl.jaas.config":
            self._log_in(entry, text)
        elif name == "security.protocol":
            self._encrypt(entry, text)
        elif name.startswith("kerberos.") and not kerberos:
            self.report.note(entry, "not used: kerberos.enable is false")
        elif name.startswith("kerberos."):
            self.report.act(
                entry, "there is no login by Kerberos: set `output.username`, `password_file` and `mechanism`"
            )
        elif name.startswith(("ssl.", "sasl.")):
            self.report.act(
                entry, "left out: `output` has `ca`, `cert` and `key`, PEM files; `username` and `mechanism`"
            )
        else:
            self.report.act(entry, "left out: set librdkafka's option of that meaning in `output.options`")

    def _set(self, name: str, entry: Entry, text: str) -> None:
        if name == "compression.type":
            if text not in _COMPRESSIONS:
                raise entry.wrong(f"be one of {', '.join(_COMPRESSIONS)}", f"is '{text}'")
            self._output["compression"] = text
        elif name == "max.request.size":
            self._output["message_bytes_max"] = self.view.whole(entry.key, 1)
        elif name == "sasl.mechanism":
            self._output["mechanism"] = text
        elif name == "linger.ms":
            self._output["options"] = {name: self.view.whole(entry.key)}
        self.report.setting(entry, f"`output` of the relay: {text}")

    def _log_in(self, entry: Entry, text: str) -> None:
        login = dict(_LOGIN.findall(text))
        if not {"username", "password"} <= login.keys():
            self.report.act(
                entry, "it has no user name and password: set `output.username` and `password_file`"
            )
            return
        path = self.secrets.put("kafka.password", login["password"])
        self._output.update(username=login["username"], password_file=path)
        self.report.setting(entry, f"`output.username` and `output.password_file: {path}`")

    def _encrypt(self, entry: Entry, text: str) -> None:
        # A relay refuses the file until it has what this promises, and never sends the password in clear.
        self._output["protocol"] = text.upper()
        if "SSL" in text.upper().split("_"):
            self.report.act(
                entry, "set `output.ca`: a PEM file of the authorities that sign the brokers' certificates"
            )
        else:
            self.report.note(entry, f"`output.protocol: {text.upper()}`: the connection is not encrypted")
