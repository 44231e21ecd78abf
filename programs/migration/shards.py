"""Shards: the sources of one of canal's instances as entries of `shards`.

An instance has one source, `canal.instance.master`, or with canal's group-instance.xml several, `master1`,
`master2` and so on. Each may have a standby.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from canal_group.conf.sentence import config_error, shown
from canal_group.conf.settings import InstanceSettings
from canal_group.conf.shard_settings import ShardSettings
from canal_group.conf.value import default_of
from canal_group.merge.errors import CanalGroupError
from canal_group.merge.file_name import file_name
from canal_group.merge.values.start import parse_shard_start
from canal_group.programs.migration.canal_files.cursor import time_text
from canal_group.programs.migration.canal_files.druid import decrypted
from canal_group.programs.migration.canal_files.properties import Entry
from canal_group.programs.migration.canal_files.secret_text import masked
from canal_group.programs.migration.canal_files.view import View
from canal_group.programs.migration.report import Report
from canal_group.programs.migration.secrets import Secrets
from canal_group.programs.migration.starts import START_KEYS, Source

_MODES = ("DISABLED", "PREFERRED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY")


def ssl_of(view: View, master: str, shard: str, folder: Path, report: Report) -> dict[str, Any] | None:
    """Return the `ssl` of a source; None: the connection is not encrypted.

    Args:
        view: what canal's files say.
        master: the source's prefix of keys.
        shard: name of the shard, of which files are named.
        folder: where the certificates will be.
        report: takes the answers.

    Raises:
        ConfigError: there is no such mode.
    """
    text, entry = view.text(f"{master}.sslMode"), view.entry(f"{master}.sslMode")
    mode = (text or "DISABLED").upper()
    if mode not in _MODES:
        assert entry is not None
        raise entry.wrong(f"be one of {', '.join(_MODES)}", f"is {shown(text)}")
    stores = [view.given(f"{master}.{kind}CertificateKeyStoreUrl") for kind in ("trust", "client")]
    if mode == "DISABLED":
        report.setting(entry, "no `shards[].ssl`: the connection is not encrypted")
        for store in stores:
            report.note(store, "not used: sslMode is DISABLED")
        return None
    ssl: dict[str, Any] = {}
    if mode in ("PREFERRED", "REQUIRED"):
        ssl["verify"] = False
    trust, client = stores
    if trust is not None and mode not in ("PREFERRED", "REQUIRED"):
        ssl["ca"] = str((folder / file_name(f"{shard}-ca.pem")).absolute())
        report.act(
            trust,
            "a key store of Java is not read. Write its certificates into the file of `ssl.ca`: keytool -list"
            f" -rfc -keystore STORE > {ssl['ca']}",
        )
    elif trust is not None:
        report.note(trust, f"not used, as in canal: {mode} does not verify the server")
    if client is not None:
        certificate, key = (
            str((folder / file_name(f"{shard}-{part}.pem")).absolute()) for part in ("cert", "key")
        )
        ssl |= {"cert": certificate, "key": key}
        report.act(
            client,
            "a key store of Java is not read. Export it as PKCS12 (keytool -importkeystore"
            f" -deststoretype PKCS12), then: openssl pkcs12 -in STORE -nokeys -out {certificate}; openssl"
            f" pkcs12 -in STORE -nocerts -nodes -out {key}",
        )
    if mode == "PREFERRED":
        report.act(entry, "`ssl.verify: false`: a server without TLS is refused. Remove `ssl` if it has none")
    elif mode == "VERIFY_CA":
        report.act(entry, "`ssl.verify: true`, which also requires that the certificate is for `host`")
    else:
        report.setting(entry, f"`ssl.verify: {str(mode == 'VERIFY_IDENTITY').lower()}`")
    return ssl


_PREFIX = "canal.instance."
_NUMBERED = re.compile(r"canal\.instance\.master(\d+)\.address")
_PORT: Final = default_of(ShardSettings, "port")
_FALLBACK_S: Final = default_of(InstanceSettings, "reader.fallback_s")
_PORT_MAX = 65_535
_FIRST_OFFSET = 4


@dataclass(frozen=True, slots=True)
class Shards:
    """Makes the shards of one instance.

    Args:
        view: what the files say about it.
        report: takes the answers.
        secrets: takes the passwords.
        destination: name of the stream that they are shards of.
    """

    view: View
    report: Report
    secrets: Secrets
    destination: str

    def make(self) -> list[Source]:
        """Return the instance's sources, each with its entry of `shards`.

        Raises:
            ConfigError: an entry is missing, or cannot be used.
        """
        return [self._source(number) for number in self._numbers()]

    def _numbers(self) -> list[str]:
        """Return the numbers that follow `master` in the keys of each source; empty without a group."""
        numbers = sorted(
            (match[1] for key in self.view.all_keys if (match := _NUMBERED.fullmatch(key))), key=int
        )
        numbered = [number for number in numbers if self.view.given(f"{_PREFIX}master{number}.address")]
        single = self.view.given(f"{_PREFIX}master.address")
        own_xml = f"{_PREFIX}{self.view.name}.spring.xml"
        xml = self.view.text(own_xml) or self.view.text(f"{_PREFIX}global.spring.xml")
        if numbered and (single is None or xml is None or "group" in xml):
            self.report.note(single, "the group's sources are read instead: master1, master2 and so on")
            return numbered
        if single is None:
            raise config_error(
                str(self.view.own.file),
                f"{_PREFIX}master.address",
                "be given, or `canal.instance.master1.address` and the following ones",
                "is missing",
            )
        for number in numbered:
            for key in self.view.all_keys:
                if key.startswith((f"{_PREFIX}master{number}.", f"{_PREFIX}standby{number}.")):
                    self.report.note(
                        self.view.entry(key), f"it counts with group-instance.xml only, not {xml}"
                    )
        return [""]

    def _account(self, number: str, shard: str) -> dict[str, Any]:
        """Return the user of a source, and where its password is; a group's sources may have their own."""
        user_key, password_key = (self._own_key(number, name) for name in ("dbUsername", "dbPassword"))
        user = self.view.text(user_key)
        if user is None:
            raise config_error(
                str(self.view.own.file),
                f"{_PREFIX}dbUsername",
                "be given, in it or in canal.properties",
                "is not",
            )
        self.report.setting(self.view.entry(user_key), "`shards[].user`")
        owner = self.view.name if password_key == f"{_PREFIX}dbPassword" else shard
        return {"user": user, **self._password(password_key, owner)}

    def _own_key(self, number: str, name: str) -> str:
        """Return the key that counts for a source: its own, by either name that a group's file may use."""
        own = (f"{_PREFIX}master{number}.{name}", f"{_PREFIX}{name}{number}") if number else ()
        return next((key for key in own if self.view.given(key) is not None), f"{_PREFIX}{name}")

    def _password(self, key: str, owner: str) -> dict[str, str]:
        entry, variable = self.view.given(key), self.view.variable(key)
        encrypted = self.view.flag(f"{_PREFIX}enableDruid")
        if entry is None:
            return {}
        if variable is not None and not encrypted:
            self.report.setting(entry, f"`password_env: {variable}`")
            return {"password_env": variable}
        password = self.view.text(key)
        if password is None:
            return {}
        if encrypted:
            password = decrypted(entry, password, self.view.text(f"{_PREFIX}pwdPublicKey"))
            self.report.note(
                self.view.entry(f"{_PREFIX}enableDruid"),
                "no setting: the password was decrypted into its file",
            )
        path = self.secrets.put(f"{owner}.password", password)
        self.report.setting(entry, f"`password_file: {path}`")
        return {"password_file": path}

    def _source(self, number: str) -> Source:
        master, standby = f"{_PREFIX}master{number}", f"{_PREFIX}standby{number}"
        name = f"{self.view.name}-{number}" if number else self.view.name
        host, port = self._address(f"{master}.address")
        shard: dict[str, Any] = {"name": name}
        other = self._address(f"{standby}.address") if self.view.given(f"{standby}.address") else None
        if other is None:
            shard |= {"host": host} if port == _PORT else {"host": host, "port": port}
        else:
            shard["hosts"] = [_joined(host, port), _joined(*other)]
        shard |= self._account(number, name)
        ssl = ssl_of(self.view, master, name, self.secrets.folder, self.report)
        if ssl is not None:
            shard["ssl"] = ssl
        self._of_standby(standby)
        gtids = self.view.flag(f"{_PREFIX}gtidon")
        self._resumption(shard, gtids, other is not None, standby)
        start = self._start(master, gtids)
        if start is not None:
            shard["start"] = start
        fallback_s = self.view.whole(f"{_PREFIX}fallbackIntervalInSeconds") or _FALLBACK_S
        return Source(self.view, shard, master, (host, port), other, float(fallback_s), self.destination)

    def _address(self, key: str) -> tuple[str, int]:
        text, entry = self.view.text(key), self.view.entry(key)
        assert text is not None, key
        assert entry is not None, key
        host, colon, port = text.rpartition(":")
        if not colon:
            host, port = text, str(_PORT)
        if not host or "@" in host or not port.isdecimal() or not 1 <= int(port) <= _PORT_MAX:
            raise entry.wrong("be `host:port`", f"is {shown(masked(text))}")
        self.report.setting(
            entry, f"`shards[].hosts`: {text}" if ".standby" in key else f"`shards[].host`: {text}"
        )
        return host.strip("[]"), int(port)

    def _of_standby(self, standby: str) -> None:
        for key in ("dbUsername", "dbPassword"):
            self.report.act(
                self.view.given(f"{standby}.{key}"),
                "a shard has one account for all of its `hosts`: make the same one on the standby",
            )
        for key in ("sslMode", "trustCertificateKeyStoreUrl", "clientCertificateKeyStoreUrl"):
            entry = self.view.given(f"{standby}.{key}")
            self.report.note(entry, "no setting of its own: `shards[].ssl` counts for all `hosts` of a shard")

    def _resumption(self, shard: dict[str, Any], gtids: bool, has_standby: bool, standby: str) -> None:
        """Say how the stream goes on from a position, on the same server or on another one."""
        entry = self.view.entry(f"{_PREFIX}gtidon")
        if gtids:
            shard["start_by"] = "gtid"
            self.report.setting(entry, "`shards[].start_by: gtid`")
        elif has_standby:
            shard["start_by"] = "time"
            self.report.setting(
                entry,
                "`shards[].start_by: time`: on another server by GTIDs, or by time where they cannot be used",
            )
        else:
            self.report.setting(entry, "`shards[].start_by: auto`, the default")
        switches = all(self.view.flag(f"{_PREFIX}detecting.{key}") for key in ("enable", "heartbeatHaEnable"))
        if has_standby and not switches:
            self.report.act(
                self.view.entry(f"{standby}.address"),
                "canal left a failed master only with detecting.enable and heartbeatHaEnable; here the shard"
                " always goes on at the standby. Take it out of `hosts` if it must not",
            )

    def _start(self, master: str, gtids: bool) -> str | None:
        """Return where the shard begins without a cursor, as canal would; None: at the source's end."""
        journal, at = self.view.text(f"{master}.journal.name"), self.view.whole(f"{master}.position")
        time_ms, gtid = self.view.whole(f"{master}.timestamp"), self.view.text(f"{master}.gtid")
        entries = {key: self.view.entry(f"{master}.{key}") for key in START_KEYS}
        start, used = None, list[str]()
        if gtids and gtid:
            start, used = gtid.replace("\n", ""), ["gtid"]
        elif journal and at:
            start, used = f"{journal}:{at}", ["journal.name", "position"]
        elif time_ms:
            start, used = time_text(time_ms), ["timestamp"]
        elif journal:
            start, used = f"{journal}:{_FIRST_OFFSET}", ["journal.name"]
        for key, entry in entries.items():
            if key in used:
                self._check(entry, start or "")
                self.report.setting(entry, f"`shards[].start`: {start}")
            elif start is not None:
                self.report.note(entry, f"not used, as in canal: the start is {start}")
            elif gtid and key == "gtid":
                self.report.note(entry, "it counts only with gtidon, as in canal")
        return start

    def _check(self, entry: Entry | None, start: str) -> None:
        try:
            parse_shard_start(start, time.time_ns() // 1_000)
        except CanalGroupError as error:
            assert entry is not None, start
            raise entry.wrong(
                "say where a binlog begins", f"does not ({error.message.rstrip('.')})"
            ) from None


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
