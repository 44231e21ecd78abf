"""Loading: merge an instance file over the preset that it names, and validate it as `InstanceSettings`.

    preset: group            # one of PRESETS; optional
    destination: shop
    shards: [...]

Mappings are merged key by key; any other value replaces the preset's. An invalid file raises one
`ConfigError` whose message is one sentence.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from canal_group.conf.document import parse_document, read_document
from canal_group.conf.secret import EVERY_OWNER, Owner
from canal_group.conf.sentence import config_error, in_a_sentence, nearest, shown, unknown_key
from canal_group.conf.settings import InstanceSettings

#: the presets, as canal names its four instance files
PRESETS = ("memory", "file", "default", "group")


def load_instance(path: str | Path, *, secrets: Collection[Owner] = EVERY_OWNER) -> InstanceSettings:
    """Read an instance file and the secrets it points to.

    Relative paths in it are relative to its folder.

    Args:
        path: of the file.
        secrets: owners whose secrets are read. Other secrets may be missing; using one is a RuntimeError.

    Raises:
        ConfigError: the file is missing or malformed, or a setting is invalid.
    """
    folder = Path(path).absolute().parent
    return build_instance(read_document(path), source=str(path), folder=folder, secrets=secrets)


def build_instance(
    values: Mapping[str, Any],
    *,
    source: str = "settings",
    folder: Path | None = None,
    secrets: Collection[Owner] = EVERY_OWNER,
) -> InstanceSettings:
    """Return the settings for the content of an instance file.

    Args:
        values: content of the file, `preset` included.
        source: where the values come from, for messages.
        folder: folder that relative paths are relative to; None: the working directory.
        secrets: owners whose secrets are read, see `load_instance`.

    Raises:
        ConfigError: a setting is invalid.
    """
    own = dict(values)
    name = own.pop("preset", None)
    for key in own:
        if key not in InstanceSettings.model_fields:
            raise unknown_key(source, str(key), [*InstanceSettings.model_fields, "preset"])
    below = {} if name is None else load_preset(name, source=source)
    with in_a_sentence(source, InstanceSettings):
        context = {"folder": folder, "secrets": secrets}
        return InstanceSettings.model_validate(merge_over(below, own), context=context)


def load_preset(name: str, *, source: str = "settings") -> dict[str, Any]:
    """Return the content of a preset.

    Args:
        name: one of `PRESETS`.
        source: file that names the preset, for messages.

    Raises:
        ConfigError: there is no such preset.
    """
    if name not in PRESETS:
        expected = f"be a preset ({nearest(str(name), PRESETS)})"
        raise config_error(source, "preset", expected, f"is {shown(name)}")
    text = files("canal_group.conf").joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    return parse_document(text, f"preset {name}")


def merge_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return `below` with the values of `above`; mappings are merged, all else is replaced.

    A mapping of another `kind` replaces the whole mapping, because each kind has its own keys.
    """
    merged = dict(below)
    for key, value in above.items():
        old = below.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping) and not _other_kind(old, value):
            merged[key] = merge_over(old, value)
        else:
            merged[key] = value
    return merged


def _other_kind(below: Mapping[str, Any], above: Mapping[str, Any]) -> bool:
    return "kind" in above and above["kind"] != below.get("kind")
