"""Shards: the sources of one of canal's instances as entries of `shards`.

An instance has one source, `canal.instance.master`, or with canal's group-instance.xml several, `master1`,
`master2` and so on. Each may have a standby.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from canal_group.conf.sentence import config_error, shown
from canal_group.conf.shard_settings import ShardSettings
from canal_group.conf.value import default_of
from canal_group.merge.errors import CanalGroupError
from canal_group.merge.values.start import parse_shard_start
from canal_group.programs.migration.canal_files.cursor import CanalCursor, time_text
from canal_group.programs.migration.canal_files.druid import decrypted
from canal_group.programs.migration.canal_files.properties import Entry
from canal_group.programs.migration.canal_files.view import View
from canal_group.programs.migration.report import Report
from canal_group.programs.migration.secrets import Secrets
from canal_group.programs.migration.ssl import ssl_of

_PREFIX = "canal.instance."
_NUMBERED = re.compile(r"canal\.instance\.master(\d+)\.address")
_PORT: Final = default_of(ShardSettings, "port")
_PORT_MAX = 65_535
_FIRST_OFFSET = 4
START_KEYS = ("journal.name", "position", "timestamp", "gtid")


@dataclass(frozen=True, slots=True)
class Shards:
    """Makes the shards of one instance.

    Args:
        view: what the files say about it.
        report: takes the answers.
        secrets: takes the passwords.
        fallback_s: how long before the last commit another server is read from.
    """

    view: View
    report: Report
    secrets: Secrets
    fallback_s: float
    #: the cursors that became starts
    used: set[CanalCursor] = field(default_factory=set)

    def make(self, cursors: Sequence[CanalCursor]) -> list[dict[str, Any]]:
        """Return the instance's entries of `shards`.

        Args:
            cursors: the first that is of a source counts for it.

        Raises:
            ConfigError: an entry is missing, or cannot be used.
        """
        numbers = self._numbers()
        account = self._account()
        return [self._shard(number, len(numbers) > 1 or bool(number), account, cursors) for number in numbers]

    def _numbers(self) -> list[str]:
        """Return the numbers that follow `master` in the keys of each source; empty without a group."""
        numbers = sorted(
            (match[1] for key in self.view.all_keys if (match := _NUMBERED.fullmatch(key))), key=int
        )
        numbered = [number for number in numbers if self.view.given(f"{_PREFIX}master{number}.address")]
        single = self.view.given(f"{_PREFIX}master.address")
        xml = self.view.text("canal.instance.global.spring.xml")
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

    def _account(self) -> dict[str, Any]:
        """Return the user, and where its password is; a group's sources share them."""
        user = self.view.text(f"{_PREFIX}dbUsername")
        if user is None:
            raise config_error(
                str(self.view.own.file),
                f"{_PREFIX}dbUsername",
                "be given, in it or in canal.properties",
                "is not",
            )
        self.report.setting(self.view.entry(f"{_PREFIX}dbUsername"), "`shards[].user`")
        return {"user": user, **self._password()}

    def _password(self) -> dict[str, str]:
        key = f"{_PREFIX}dbPassword"
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
        path = self.secrets.put(f"{self.view.name}.password", password)
        self.report.setting(entry, f"`password_file: {path}`")
        return {"password_file": path}

    def _shard(
        self, number: str, in_group: bool, account: dict[str, Any], cursors: Sequence[CanalCursor]
    ) -> dict[str, Any]:
        master, standby = f"{_PREFIX}master{number}", f"{_PREFIX}standby{number}"
        name = f"{self.view.name}-{number}" if in_group else self.view.name
        host, port = self._address(f"{master}.address")
        shard: dict[str, Any] = {"name": name}
        other = self._address(f"{standby}.address") if self.view.given(f"{standby}.address") else None
        if other is None:
            shard |= {"host": host} if port == _PORT else {"host": host, "port": port}
        else:
            shard["hosts"] = [_joined(host, port), _joined(*other)]
        shard |= account
        ssl = ssl_of(self.view, master, name, self.secrets.folder, self.report)
        if ssl is not None:
            shard["ssl"] = ssl
        self._ssl_of_standby(standby)
        gtids = self.view.flag(f"{_PREFIX}gtidon")
        self._resumption(shard, gtids, other is not None, standby)
        start = self._start(master, gtids)
        cursor = next((each for each in cursors if self._reads(each, (host, port), other)), None)
        if cursor is not None:
            start = self._from_cursor(cursor, (host, port), master)
        if start is not None:
            shard["start"] = start
        return shard

    def _address(self, key: str) -> tuple[str, int]:
        text, entry = self.view.text(key), self.view.entry(key)
        assert text is not None, key
        assert entry is not None, key
        host, colon, port = text.rpartition(":")
        if not colon:
            host, port = text, str(_PORT)
        if not host or not port.isdecimal() or not 1 <= int(port) <= _PORT_MAX:
            raise entry.wrong("be `host:port`", f"is {shown(text)}")
        self.report.setting(
            entry, f"`shards[].hosts`: {text}" if ".standby" in key else f"`shards[].host`: {text}"
        )
        return host.strip("[]"), int(port)

    def _ssl_of_standby(self, standby: str) -> None:
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

    def _reads(self, cursor: CanalCursor, primary: tuple[str, int], standby: tuple[str, int] | None) -> bool:
        endpoint = cursor.host.lower(), cursor.port
        if not cursor.host:
            return cursor.destination in ("", self.view.name)
        return any(each is not None and (each[0].lower(), each[1]) == endpoint for each in (primary, standby))

    def _from_cursor(self, cursor: CanalCursor, primary: tuple[str, int], master: str) -> str:
        """Return the start that a cursor says; it wins over the configured one, as in canal."""
        here = not cursor.host or (cursor.host.lower(), cursor.port) == (primary[0].lower(), primary[1])
        self.used.add(cursor)
        start = cursor.start if here else cursor.start_elsewhere(self.fallback_s)
        for key in START_KEYS:
            self.report.note(
                self.view.given(f"{master}.{key}"), f"the cursor of {cursor.source} counts instead: {start}"
            )
        return start


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
