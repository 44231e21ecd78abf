"""Kafka: canal's `kafka.` keys, which are options of Kafka's Java client, as the output of a relay."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final, get_args

from canal_group.conf.relay.kafka_settings import KafkaSettings
from canal_group.programs.migration.canal_files.properties import Entry
from canal_group.programs.migration.canal_files.view import View
from canal_group.programs.migration.report import Report
from canal_group.programs.migration.secrets import Secrets

_PREFIX: Final = "kafka."
_COMPRESSIONS: Final = get_args(KafkaSettings.model_fields["compression"].annotation)
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
        servers = self.view.text(f"{_PREFIX}bootstrap.servers") or "127.0.0.1:9092"
        self._output.update(kind="kafka", servers=re.sub(r"\s", "", servers))
        for key in self.view.all_keys:
            entry = self.view.given(key)
            if key.startswith(_PREFIX) and entry is not None:
                self._take(key.removeprefix(_PREFIX), entry)
        return self._output

    def _take(self, name: str, entry: Entry) -> None:
        text = self.view.text(entry.key) or ""
        if name in _DECIDED:
            self.report.note(entry, "no setting: a relay publishes in transactions, which decide it")
        elif name in (
            "bootstrap.servers",
            "compression.type",
            "max.request.size",
            "sasl.mechanism",
            "linger.ms",
        ):
            self._set(name, entry, text)
        elif name == "sasl.jaas.config":
            self._log_in(entry, text)
        elif name == "security.protocol":
            self._encrypt(entry, text)
        elif name.startswith("kerberos.") and not self.view.flag(f"{_PREFIX}kerberos.enable"):
            self.report.note(entry, "not used: kerberos.enable is false")
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
