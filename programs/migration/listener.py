"""Listener: canal's port, user and addresses as `canal`, where canal's clients connect."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from canal_group.merge.values.reach import is_loopback
from canal_group.merge.well_known import CANAL_PORT
from canal_group.programs.migration.canal_files.view import View
from canal_group.programs.migration.report import Report
from canal_group.programs.migration.secrets import Secrets
from canal_group.programs.migration.stream import first_of

_ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - canal's own default
_ENDS: Final = "canal.instance.filter.transaction.entry"
_DIGEST = re.compile(r"[0-9A-Fa-f]{40}")


def listener_of(views: Sequence[View], report: Report, secrets: Secrets) -> dict[str, Any] | None:
    """Return `canal`; None: canal has no listener for clients, as it publishes to a message queue.

    Raises:
        ConfigError: a value cannot be used.
    """
    view = views[0]
    mode = (view.text("canal.serverMode") or "tcp").lower()
    without = view.flag("canal.withoutNetty")
    if mode != "tcp" or without:
        for key in ("canal.ip", "canal.port", "canal.user", "canal.passwd"):
            report.note(view.given(key), "not used, as in canal: it has no listener for clients")
        for each in views:
            report.note(each.entry(_ENDS), "no setting: a relay's messages have no begin and no end")
        return None
    report.setting(view.entry("canal.serverMode"), "`canal`: the listener for canal's clients")
    port = (
        first_of(views, report, "canal.port", "canal.port", lambda each, key: each.whole(key, 1))
        or CANAL_PORT
    )
    # All instance files of a server share canal's usual port, which none of them has to name.
    settings: dict[str, Any] = {} if port == CANAL_PORT else {"port": port}
    report.setting(view.entry("canal.port"), f"`canal.port: {port}`")
    user, digest, entry = view.text("canal.user"), view.text("canal.passwd"), view.entry("canal.passwd")
    if user and digest:
        assert entry is not None
        if not _DIGEST.fullmatch(digest):
            raise entry.wrong(
                "be 40 hexadecimal digits: SHA1 of the SHA1 of the password", "is something else"
            )
        path = secrets.put("canal-clients.password", f"*{digest.upper()}")
        settings |= {"user": user, "password_file": path}
        report.setting(view.entry("canal.user"), "`canal.user`")
        report.setting(
            entry, f"`canal.password_file: {path}`: an asterisk and the digest; clients keep their password"
        )
    else:
        for key in ("canal.user", "canal.passwd"):
            report.note(view.given(key), "not used, as in canal: it counts only with the other one")
    _address(view, settings, report, open_to_all=not (user and digest))
    leaves_out = first_of(views, report, _ENDS, "canal.transaction_entries", lambda each, key: each.flag(key))
    if leaves_out:
        settings["transaction_entries"] = False
    for each in views:
        report.setting(each.entry(_ENDS), f"`canal.transaction_entries: {str(not leaves_out).lower()}`")
    return settings


def _address(view: View, settings: dict[str, Any], report: Report, *, open_to_all: bool) -> None:
    """Say where it listens: beyond this machine only if clients have to log in."""
    ip, entry = view.text("canal.ip"), view.entry("canal.ip")
    host = ip or _ANY_ADDRESS
    if open_to_all and not is_loopback(host):
        report.act(
            entry or view.entry("canal.port"),
            "canal admits everybody on that address. Here clients of other machines must log in: set"
            " `canal.user`, `canal.password_file`, and `canal.host`, which is 127.0.0.1 until then",
        )
    else:
        settings["host"] = host
        report.setting(entry, f"`canal.host: {host}`")
    register, name = view.text("canal.register.ip"), view.entry("canal.register.ip")
    if register is not None:
        settings["advertise"] = register
        report.setting(name, f"`canal.advertise: {register}`")
