"""Server: canal's settings of ZooKeeper, cursors and listeners as the settings that all shards share."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from canal_group.conf.load import PRESETS
from canal_group.conf.sentence import shown
from canal_group.merge.well_known import PREFIX
from canal_group.programs.migration.canal_files.conf_files import destinations
from canal_group.programs.migration.canal_files.secret_text import masked
from canal_group.programs.migration.canal_files.view import View
from canal_group.programs.migration.report import Report
from canal_group.programs.migration.stream import first_of

_ZOOKEEPER_PORT = 2181
_FLUSH_MS = 1_000
_XML = "canal.instance.global.spring.xml"


def server_of(views: Sequence[View], report: Report, every_name: Collection[str]) -> dict[str, Any]:
    """Return the settings by path, `preset` first.

    Args:
        views: the instances of one destination.
        report: takes the answers.
        every_name: names of all instances that are imported.

    Raises:
        ConfigError: a value cannot be used.
    """
    settings: dict[str, Any] = {"preset": "file"}
    preset = first_of(views, report, _XML, "preset", _preset)
    zookeeper = first_of(views, report, "canal.zkServers", "coordination.hosts", _zookeeper)
    if zookeeper is not None:
        preset = "default"
        hosts, prefix = zookeeper
        settings |= {"coordination.kind": "zookeeper", "coordination.hosts": hosts}
        if prefix != PREFIX:
            settings["coordination.prefix"] = prefix
    settings["preset"] = preset or "file"
    for view in views:
        _say_preset(view, settings["preset"], report, zookeeper=zookeeper is not None)
        if zookeeper is not None:
            _say_zookeeper(view, settings, report)
    settings |= _flush(views, settings["preset"], report)
    settings |= _purged(views, report)
    _say_others(views, report, every_name)
    return settings


def _preset(view: View, key: str) -> str | None:
    """Return the preset that is named as canal's instance file of a destination is."""
    own = f"canal.instance.{view.name}.spring.xml"
    key = own if view.given(own) is not None else key
    text, entry = view.text(key), view.entry(key)
    if text is None or entry is None:
        return None
    match = re.search(r"(\w+)-instance\.xml$", text)
    if match is None or match[1] not in PRESETS:
        raise entry.wrong(
            f"be one of {', '.join(f'{each}-instance.xml' for each in PRESETS)}; what another one says"
            " has to be set by hand",
            f"is {shown(text)}",
        )
    return match[1]


def _say_preset(view: View, preset: str, report: Report, *, zookeeper: bool) -> None:
    for entry in (view.given(f"canal.instance.{view.name}.spring.xml"), view.given(_XML)):
        if entry is None:
            continue
        if not zookeeper:
            report.setting(entry, f"`preset: {preset}`")
        elif "default" in entry.raw:
            report.setting(entry, "`preset: default`")
        else:
            report.note(
                entry,
                "`preset: default`: the next server finds the cursors in ZooKeeper only",
            )


def _zookeeper(view: View, key: str) -> tuple[str, str] | None:
    """Return the hosts of the first cluster, with ports, and the path of canal's tree."""
    text, entry = view.text(key), view.entry(key)
    if text is None or entry is None:
        return None
    # canal separates clusters by semicolons.
    hosts, slash, root = text.split(";")[0].strip().partition("/")
    parts = [part.strip() for part in hosts.split(",") if part.strip()]
    if not parts or any(
        not re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[^\s:\[\]]+)(:\d{1,5})?", part) for part in parts
    ):
        raise entry.wrong("be `host:port`, several separated by commas", f"is {shown(masked(text))}")
    complete = [part if re.search(r":\d+$", part) else f"{part}:{_ZOOKEEPER_PORT}" for part in parts]
    return ",".join(complete), f"{slash}{root.rstrip('/')}{PREFIX}" if root else PREFIX


def _say_zookeeper(view: View, settings: dict[str, Any], report: Report) -> None:
    entry = view.given("canal.zkServers")
    report.setting(entry, f"`coordination.hosts: {settings['coordination.hosts']}`")
    if entry is not None and ";" in entry.raw:
        report.act(entry, "canal's other ZooKeeper clusters are left out: a destination has one")
    report.act(
        entry,
        f"canal's cursors are below the same nodes ({PREFIX}/destinations). Stop canal before this is"
        " served, or set another `coordination.prefix` for a trial: docs/migrating-from-canal.md",
    )


def _flush(views: Sequence[View], preset: str, report: Report) -> dict[str, Any]:
    """Return how often cursors are written, if somebody has chosen it."""
    key = {"default": "canal.zookeeper.flush.period", "file": "canal.file.flush.period"}.get(preset)
    for view in views:
        for other in {"canal.zookeeper.flush.period", "canal.file.flush.period"} - {key}:
            report.note(view.entry(other), f"it does not count with `preset: {preset}`")
    if key is None:
        return {}
    period_ms = first_of(views, report, key, "cursor.flush_s", lambda view, name: view.whole(name, 1))
    if period_ms is None or period_ms == _FLUSH_MS:
        return {}
    for view in views:
        report.setting(view.entry(key), f"`cursor.flush_s: {period_ms / 1000:g}`")
    return {"cursor.flush_s": period_ms / 1000}


def _purged(views: Sequence[View], report: Report) -> dict[str, Any]:
    key = "canal.auto.reset.latest.pos.mode"
    latest = first_of(views, report, key, "merge.purged", lambda view, name: view.flag(name))
    purged = "latest" if latest else "fail"
    for view in views:
        report.setting(view.entry(key), f"`merge.purged: {purged}`")
    return {"merge.purged": purged} if latest else {}


def _say_others(views: Sequence[View], report: Report, every_name: Collection[str]) -> None:
    for view in views:
        listed = destinations(view)
        entry = view.given("canal.destinations")
        others = [name for name in listed if name not in every_name]
        if others:
            report.act(
                entry or view.entry("canal.destinations.expr"),
                f"{', '.join(others)}: import each into an instance file of its own, or as a shard",
            )
        if view.name in listed and view.name != view.own.folder_name:
            report.setting(entry, f"`destination: {view.name}`, though the folder is {view.own.folder_name}")
        if listed and view.name not in listed and not view.flag("canal.auto.scan", default=True):
            report.act(entry, f"canal does not serve {view.name}, which it does not name, without auto.scan")
        report.act(
            view.given("canal.admin.manager"),
            "canal-admin holds canal.properties and the instances: save them as files, and import those",
        )
        mode = view.given("canal.instance.global.mode")
        if mode is not None and mode.raw.lower() == "manager":
            report.act(mode, "canal-admin holds the instances: save them as files, and import those")
        for key in (f"canal.instance.{view.name}.mode", f"canal.instance.{view.name}.lazy"):
            report.note(view.entry(key), "no setting: an instance is a file, and starts with its server")
        for key, what in (
            ("canal.instance.multi.stream.on", "the streams of PolarDB-X are not read"),
            ("canal.instance.rds.accesskey", "binlogs that only Aliyun's object store has are not read"),
            ("canal.aliyun.accessKey", "binlogs that only Aliyun's object store has are not read"),
            ("canal.aliyun.accesskey", "binlogs that only Aliyun's object store has are not read"),
        ):
            entry_given = view.given(key)
            if entry_given is not None and entry_given.raw.lower() != "false":
                report.act(
                    entry_given, f"{what}; `merge.purged` says what happens when a source has purged its own"
                )
        slave = view.given("canal.instance.mysql.slaveId")
        if slave is not None and view.whole("canal.instance.mysql.slaveId"):
            report.note(
                slave,
                "not taken over: of two readers with one id a source disconnects one, and canal may"
                " still run. `shards[].server_id` is computed",
            )
