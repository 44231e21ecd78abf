"""Sentences: the message of an invalid setting, with its key path, what it should be and what it is.

A message shows the value, unless the value could be a secret.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from canal_group.conf.value import UNFIT
from canal_group.merge.errors import CanalGroupError, ConfigError

#: in the location of an error, the mapping of a kind that a plug-in adds
PLUG_IN_TAG = "plug-in"

_SHOWN_CHARACTERS_MAX = 60

#: pydantic's error type -> the words after "should"; the error's context fills the braces
_EXPECTED: Mapping[str, str] = {
    "missing": "be given",
    "string_type": "be text",
    "string_too_short": "be text that is not empty",
    "int_type": "be a whole number",
    "float_type": "be a number",
    "finite_number": "be a finite number",
    "bool_type": "be true or false",
    "path_type": "be a path",
    "model_type": "be a mapping",
    "model_attributes_type": "be a mapping",
    "dict_type": "be a mapping",
    "tuple_type": "be a list",
    "too_short": "have at least one entry",
    "literal_error": "be {expected}",
    "union_tag_invalid": "be one of {expected_tags}",
    "greater_than": "be more than {gt:g}",
    "greater_than_equal": "be at least {ge}",
    "less_than_equal": "be at most {le}",
}


def config_error(source: str, key: str, expected: str, found: str) -> ConfigError:
    """Return the error whose message is "<source>: <key> should <expected>, but <found>."."""
    subject = f"`{key}`" if key else "the file"
    return ConfigError(
        f"{source}: {subject} should {expected}, but {found}.",
        source=source,
        key=key,
        expected=expected,
        found=found,
    )


def unknown_key(source: str, key: str, names: Iterable[str]) -> ConfigError:
    """Return the error of an unknown key, with the known key that is most like it."""
    name = key.rpartition(".")[2]
    return config_error(source, key, f"be a known key ({nearest(name, names)})", "is unknown")


def nearest(name: str, names: Iterable[str]) -> str:
    """Return "nearest: <the known name most like this one>", or all known names if none is."""
    ordered = sorted(names)
    like = difflib.get_close_matches(name, ordered, n=1)
    return f"nearest: {like[0]}" if like else f"known: {', '.join(ordered)}"


@contextmanager
def in_a_sentence(
    source: str, model: type[BaseModel], source_of: Callable[[str], str] | None = None
) -> Iterator[None]:
    """Raise a ConfigError for whatever goes wrong inside: one file must not end what others say.

    Args:
        source: where the values come from, for messages.
        model: what they are validated against.
        source_of: returns where the value of a key comes from; None: all come from `source`.
    """
    try:
        yield
    except ValidationError as error:
        raise first_error(error, source_of or (lambda _: source), model) from None
    except CanalGroupError:
        raise
    except Exception as error:
        raise config_error(source, "", "be valid", f"cannot be read ({type(error).__name__})") from error


def first_error(
    error: ValidationError, source_of: Callable[[str], str], model: type[BaseModel]
) -> ConfigError:
    """Return the error for the first invalid setting.

    Unknown keys come first, because a misspelt key is also a missing one.

    Args:
        error: what the validation against `model` raised.
        source_of: returns where the value of a key comes from, for messages.
        model: the outermost model.
    """
    details = error.errors(include_url=False)
    detail = min(details, key=lambda detail: detail["type"] != "extra_forbidden")
    key, models = _locate(detail["loc"], model)
    if detail["type"] == "extra_forbidden":
        names = [name for model in models for name in model.model_fields]
        return unknown_key(source_of(key), key, names)
    context = detail.get("ctx", {})
    if detail["type"] == UNFIT:
        inner = context["key"]
        key = f"{key}.{inner}" if key and inner else key or inner
        found = context["found"] or _found(key, detail)
        return config_error(source_of(key), key, context["expected"], found)
    if detail["type"].startswith("union_tag"):
        key = f"{key}.kind"
    if detail["type"] == "union_tag_not_found":
        # Pydantic does not name the tags here; take them from the models.
        tags = ", ".join(f"'{tag}'" for tag in map(_tag, models) if tag != PLUG_IN_TAG)
        return config_error(source_of(key), key, f"be one of {tags}", "is missing")
    expected = _EXPECTED.get(detail["type"], "be valid").format(**context)
    return config_error(source_of(key), key, expected, _found(key, detail))


def shown(value: object) -> str:
    """Return a value as an operator would write it; long text is cut, mappings and lists show their kind."""
    if value is None:
        return "empty"
    if isinstance(value, str):
        line = "\\n".join(value.splitlines())
        return f"'{line[:_SHOWN_CHARACTERS_MAX]}{'…' * (len(line) > _SHOWN_CHARACTERS_MAX)}'"
    if isinstance(value, bool | int | float):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "a mapping"
    return f"{'a' if value else 'an empty'} {type(value).__name__}"


def models_of(annotation: object) -> list[type[BaseModel]]:
    """Return the models that a value of this type can be, or hold as entries."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in models_of(part)]


def _locate(location: Sequence[str | int], model: type[BaseModel]) -> tuple[str, Sequence[type[BaseModel]]]:
    """Return the key path of pydantic's location, and the models that the last mapping in it can be."""
    path, models, inner = "", [model], [model]
    for part in location:
        fields = (
            [m.model_fields[part] for m in inner if part in m.model_fields] if isinstance(part, str) else []
        )
        of_kind = [m for m in inner if "kind" in m.model_fields and _tag(m) == part]
        if isinstance(part, int):
            path += f"[{part}]"
        elif of_kind and not fields:
            # The tag of a union: pydantic puts it into the location, but it is not in the file.
            models = inner = of_kind
        else:
            path += f".{part}" if path else part
            models, inner = inner, [m for field in fields for m in models_of(field.annotation)]
    return path, inner or models


def _tag(model: type[BaseModel]) -> str:
    """Return the tag of a mapping that has kinds."""
    kind = model.model_fields["kind"]
    return PLUG_IN_TAG if kind.is_required() else str(kind.default)


def _found(key: str, detail: ErrorDetails) -> str:
    if detail["type"] == "missing":
        return "is missing"
    value = detail["input"]
    if isinstance(value, Mapping) and detail["type"] == "union_tag_invalid":
        value = value.get("kind")
    if value is not None and any(word in key.lower() for word in ("password", "token", "secret")):
        return "is something else"
    return f"is {shown(value)}"
