"""Stream: canal's settings of buffers, batches and failover as `store`, `batch`, `reader` and `merge`.

A group has one value for all shards. Where its instances differ, the first one counts, and the others are
named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from canal_group.conf.sentence import shown
from canal_group.conf.settings import InstanceSettings
from canal_group.conf.value import default_of
from canal_group.programs.migration.canal_files.view import View
from canal_group.programs.migration.report import Report

_PREFIX = "canal.instance."
_DAY_S = 86_400
_MODES: Final = {"MEMSIZE": "memory", "ITEMSIZE": "items"}
_NETWORK_TIMEOUT_S = 30

#: converts a value; None: the key is not given
_Convert = Callable[[View, str], Any]


@dataclass(frozen=True, slots=True)
class Setting:
    """What a key of canal becomes."""

    path: str
    convert: _Convert
    #: text after the path in the report
    more: str = ""

    @property
    def default(self) -> Any:
        """Our default."""
        return default_of(InstanceSettings, self.path)

    @property
    def meaning(self) -> str:
        """What is said of the key where nothing is known of its value."""
        return f"`{self.path}`{self.more}"


def stream_of(views: Sequence[View], report: Report, *, standbys: bool) -> dict[str, Any]:
    """Return the settings by path (`store.size`), only those that differ from the defaults.

    Args:
        views: the instances.
        report: takes the answers.
        standbys: whether a shard has several servers.

    Raises:
        ConfigError: a value cannot be used.
    """
    settings: dict[str, Any] = {}
    for key, setting in SETTINGS.items():
        _one(views, report, settings, key, setting)
    detecting: dict[str, Any] = {}
    for key, setting in DETECTING.items():
        _one(views, report, detecting, key, setting)
    if standbys:
        return settings | detecting
    for view in views:
        for key in DETECTING:
            report.note(view.entry(key), "it counts only for a shard with several `hosts`: left out")
    return settings


def first_of(views: Sequence[View], report: Report, key: str, path: str, convert: _Convert) -> Any:
    """Return the first instance's value of a key, converted; None: it is not given.

    Others that differ from it are named in the report.
    """
    values = [convert(view, key) for view in views]
    for view, value in zip(views, values, strict=True):
        if value != values[0]:
            report.act(
                view.entry(key), f"one `{path}` counts for all shards: that of {views[0].name} is taken"
            )
    return values[0]


def _one(views: Sequence[View], report: Report, settings: dict[str, Any], key: str, setting: Setting) -> None:
    value = first_of(views, report, key, setting.path, setting.convert)
    if value is None:
        return
    if value != setting.default:
        settings[setting.path] = value
    is_default = ", the default" if value == setting.default else ""
    for view in views:
        report.setting(view.entry(key), f"`{setting.path}: {_text(value)}`{is_default}")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else shown(value)


def _power_of_two(view: View, key: str) -> int | None:
    value, entry = view.whole(key, 1), view.entry(key)
    if value is not None and value & (value - 1):
        assert entry is not None
        raise entry.wrong("be a power of two, as in canal", f"is {value}")
    return value


def _count(view: View, key: str) -> int | None:
    return view.whole(key, 1)


def _seconds(view: View, key: str) -> float | None:
    value = view.whole(key, 1)
    return None if value is None else float(value)


def _fallback(view: View, key: str) -> float | None:
    value, entry = _seconds(view, key), view.entry(key)
    if value is not None and value > _DAY_S:
        assert entry is not None
        raise entry.wrong(f"be at most {_DAY_S} s", f"is {value:g} s")
    return value


def _connect(view: View, key: str) -> float | None:
    """Leave canal's own value out: it bounds silence too, which is noticed by heartbeats here."""
    value = _seconds(view, key)
    return None if value == _NETWORK_TIMEOUT_S else value


def _threshold(view: View, key: str) -> int | None:
    """Return canal's count and one: it leaves a server after more failures than it says."""
    value = view.whole(key)
    return None if value is None else value + 1


def _mode(view: View, key: str) -> str | None:
    text, entry = view.text(key), view.entry(key)
    if text is None or entry is None:
        return None
    if text.upper() not in _MODES:
        raise entry.wrong("be MEMSIZE or ITEMSIZE", f"is {shown(text)}")
    return _MODES[text.upper()]


def _flag(view: View, key: str) -> bool | None:
    return None if view.given(key) is None else view.flag(key)


def _sql(view: View, key: str) -> str | None:
    text = view.text(key)
    default: str = default_of(InstanceSettings, "reader.detecting.sql")
    return default if text is not None and text.lower() == default.lower() else text


#: of instances
SETTINGS: Final[Mapping[str, Setting]] = {
    f"{_PREFIX}memory.buffer.size": Setting("store.size", _power_of_two),
    f"{_PREFIX}memory.buffer.memunit": Setting("store.memunit_bytes", _count),
    f"{_PREFIX}memory.batch.mode": Setting("store.mode", _mode),
    f"{_PREFIX}get.ddl.isolation": Setting("batch.ddl_isolation", _flag),
    f"{_PREFIX}fallbackIntervalInSeconds": Setting(
        "reader.fallback_s", _fallback, ", which counts with `start_by: time`"
    ),
    f"{_PREFIX}network.soTimeout": Setting(
        "reader.connect_timeout_s", _connect, "; for silence `reader.read_timeout_s`"
    ),
}
#: of instances with a standby
DETECTING: Final[Mapping[str, Setting]] = {
    f"{_PREFIX}detecting.sql": Setting("reader.detecting.sql", _sql),
    f"{_PREFIX}detecting.interval.time": Setting("reader.detecting.interval_s", _seconds),
    f"{_PREFIX}detecting.retry.threshold": Setting("reader.detecting.threshold", _threshold),
}
