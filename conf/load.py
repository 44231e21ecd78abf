"""Loading: merge an instance file over the preset that it names, and validate it as `InstanceSettings`.

    preset: group            # one of PRESETS; optional
    destination: shop
    shards: [...]

Mappings are merged key by key; any other value replaces the preset's. Between both lies what a file
`server.yaml` in the same folder says for all instances (`canal_group.conf.server.server_file`). An invalid
file raises one `ConfigError` whose message is one sentence.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from canal_group.conf.document import parse_document, read_document
from canal_group.conf.secret import EVERY_OWNER, Owner
from canal_group.conf.sentence import config_error, in_a_sentence, nearest, shown, unknown_key
from canal_group.conf.server.server_file import (
    NO_SERVER_FILE,
    SERVER_FILE,
    ServerFile,
    not_an_instance,
    read_server_file,
)
from canal_group.conf.settings import InstanceSettings

#: the presets, as canal names its four instance files
PRESETS = ("memory", "file", "default", "group")


def load_instance(path: str | Path, *, secrets: Collection[Owner] = EVERY_OWNER) -> InstanceSettings:
    """Read an instance file, the server's file beside it, and the secrets they point to.

    Relative paths in them are relative to their folder.

    Args:
        path: of the file.
        secrets: owners whose secrets are read. Other secrets may be missing; using one is a RuntimeError.

    Raises:
        ConfigError: a file is missing or malformed, or a setting is invalid.
    """
    folder = Path(path).absolute().parent
    if Path(path).name == SERVER_FILE:
        raise not_an_instance(path)
    return build_instance(
        read_document(path), source=str(path), folder=folder, secrets=secrets, server=read_server_file(folder)
    )


def build_instance(
    values: Mapping[str, Any],
    *,
    source: str = "settings",
    folder: Path | None = None,
    secrets: Collection[Owner] = EVERY_OWNER,
    server: ServerFile = NO_SERVER_FILE,
) -> InstanceSettings:
    """Return the settings for the content of an instance file.

    Args:
        values: content of the file, `preset` included.
        source: where the values come from, for messages.
        folder: folder that relative paths are relative to; None: the working directory.
        secrets: owners whose secrets are read, see `load_instance`.
        server: what the instance files of its server share.

    Raises:
        ConfigError: a setting is invalid; the message names the file that has it.
    """
    own = dict(values)
    for key in own:
        if key not in InstanceSettings.model_fields and key != "preset":
            raise unknown_key(source, str(key), [*InstanceSettings.model_fields, "preset"])
    shared = dict(server.values)
    own_preset, shared_preset = own.pop("preset", None), shared.pop("preset", None)
    below: dict[str, Any] = {}
    if own_preset is not None:
        below = load_preset(own_preset, source=source)
    elif shared_preset is not None:
        below = load_preset(shared_preset, source=server.source)
    merged = merge_over(merge_over(below, shared), own)
    with in_a_sentence(source, InstanceSettings, lambda key: server.source_of(key, own, source)):
        context = {"folder": folder, "secrets": secrets}
        return InstanceSettings.model_validate(merged, context=context)


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
