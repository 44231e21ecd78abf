"""The presets explain their keys, and group.yaml explains every key there is: a new one fails here first."""

import re
from importlib.resources import files

import pytest
import yaml
from pydantic_core import PydanticUndefined

from canal_group.conf.load import PRESETS, load_preset
from canal_group.conf.sentence import models_of
from canal_group.conf.settings import InstanceSettings


def preset_lines(preset):
    """A preset's lines, with the keys it does not set (`#key: value`) set."""
    text = files("canal_group.conf").joinpath(f"{preset}.yaml").read_text(encoding="utf-8")
    return [re.sub(r"^( *)#(?=\S)", r"\1", line) for line in text.splitlines()]


def explained_keys(preset):
    """Key path (`[]` for an index of a list) -> the comment above it."""
    lines = preset_lines(preset)
    comments = {}

    def walk(node, path):
        if isinstance(node, yaml.SequenceNode):
            for entry in node.value:
                walk(entry, f"{path}[]")
        elif isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                inner = f"{path}.{key.value}" if path else key.value
                first = last = key.start_mark.line
                while first > 0 and lines[first - 1].lstrip().startswith("# "):
                    first -= 1
                comments[inner] = " ".join(line.strip(" #") for line in lines[first:last])
                # The keys of this one are the user's.
                if inner != "merge.order_by":
                    walk(value, inner)

    walk(yaml.compose("\n".join(lines)), "")
    return comments


def setting_fields(models=(InstanceSettings,), path=""):
    """Key path -> the fields that can stand there: several, where a mapping has kinds."""
    by_path = {}
    for model in models:
        for name, field in model.model_fields.items():
            inner = f"{path}.{name}" if path else name
            by_path.setdefault(inner, []).append(field)
            listed = "[]" if "tuple" in str(field.annotation) else ""
            for key, fields in setting_fields(models_of(field.annotation), inner + listed).items():
                by_path.setdefault(key, []).extend(fields)
    return by_path


FIELDS = setting_fields()


def test_the_walk_sees_lists_kinds_and_depths():
    assert {"shards[].ssl.verify", "filter.routes[].to", "coordination.hosts", "coordination.port"} <= set(
        FIELDS
    )
    assert len(FIELDS["coordination.session_timeout_s"]) == 2


def test_group_yaml_explains_every_setting_and_nothing_else():
    assert set(explained_keys("group")) == set(FIELDS)


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_have_known_keys_only(preset):
    assert set(explained_keys(preset)) <= set(FIELDS)
    assert load_preset(preset)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_key_of_a_preset_is_explained_by_its_comment(preset):
    # A mapping's comment stands above it in group.yaml; the other presets explain the keys in it.
    for key, comment in explained_keys(preset).items():
        if preset == "group" or not any(models_of(field.annotation) for field in FIELDS[key]):
            assert re.match(r"[A-Z`].*\.$", comment), key


@pytest.mark.parametrize(
    ("preset", "key"), [(preset, key) for preset in PRESETS for key in explained_keys(preset)]
)
def test_a_comment_says_the_default_that_the_settings_have(preset, key):
    comment = explained_keys(preset)[key]
    for field in FIELDS[key]:
        if field.default is None:
            assert "No default" in comment
        elif field.is_required() or key.endswith(".kind"):
            assert "Required" in comment or key == "shards" or models_of(field.annotation)
        elif not models_of(field.annotation) or key == "filter.routes":
            match = re.search(r"Default: (.+?)\.(?: |$)", comment)
            assert match, comment
            default = list(field.default) if isinstance(field.default, tuple) else field.default
            value = yaml.safe_load(match[1])
            assert value == (default if isinstance(default, str | int | float | list) else str(default))


@pytest.mark.parametrize("preset", PRESETS)
def test_the_values_in_a_preset_are_the_defaults_unless_it_decides_them(preset):
    decided = {"coordination.kind", "coordination.folder", "coordination.hosts"}
    decided |= {"cursor.kind", "cursor.flush_s", "archive.folder"}

    def leaves(value, path=""):
        for key, inner in value.items():
            name = f"{path}.{key}" if path else key
            yield from leaves(inner, name) if isinstance(inner, dict) else [(name, inner)]

    for key, value in leaves(load_preset(preset)):
        defaults = [f.default for f in FIELDS[key] if f.default is not PydanticUndefined]
        assert key in decided or value in defaults or value in map(str, defaults), key
