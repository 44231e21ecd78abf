"""A plug-in named by settings, its own settings, and the mappings that may name a plug-in."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import ConfigDict, PrivateAttr, ValidationError, ValidationInfo, model_validator

from canal_group.conf.plugins.entry_points import CLASS, Group, installed, load, names
from canal_group.conf.sentence import first_error
from canal_group.conf.value import Settings, unfit
from canal_group.merge.errors import CanalGroupError, ConfigError


class PlugIn:
    """A plug-in by its name, and its settings.

    It can be sent to a process that lacks the plug-in's package: that is told when the plug-in is made.

    Args:
        group: of its entry point.
        name: of its entry point.
        settings: an instance of its SETTINGS, or what pickle made of one.
    """

    def __init__(self, group: Group, name: str, settings: Settings | bytes) -> None:
        self.group, self.name = group, name
        self._settings = settings

    def make(self, *arguments: object) -> Any:
        """Return an instance of its class, which gets its settings, then these arguments.

        Raises:
            ConfigError: it is not installed here, or raises something else than our errors.
        """
        module = load(self.group, self.name)
        try:
            return getattr(module, CLASS[self.group])(self.settings, *arguments)
        except CanalGroupError:
            raise
        except Exception as error:
            raise ConfigError(
                f"Plug-in {self.name!r} of {self.group} cannot begin: {type(error).__name__}: {error}.",
                hint="Correct its settings, or the plug-in.",
            ) from error

    @property
    def settings(self) -> Settings:
        """An instance of its SETTINGS."""
        if isinstance(self._settings, bytes):
            load(self.group, self.name)
            self._settings = pickle.loads(self._settings)  # noqa: S301  between our own processes
        assert isinstance(self._settings, Settings), "what was pickled"
        return self._settings

    def __reduce__(self) -> tuple[Any, ...]:
        own = self._settings
        packed = own if isinstance(own, bytes) else pickle.dumps(own)
        return PlugIn, (self.group, self.name, packed)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PlugIn) or (self.group, self.name) != (other.group, other.name):
            return False
        return self.settings == other.settings

    def __hash__(self) -> int:
        return hash((self.group, self.name))


class PlugInSettings(Settings):
    """A mapping that names a plug-in, and has the plug-in's settings as further keys."""

    model_config = ConfigDict(extra="allow")

    #: of its entry point
    group: ClassVar[Group]
    #: the key that names it
    named_by: ClassVar[str]
    #: what the key may also have, for messages
    built_in: ClassVar[str] = ""

    _plug_in: PlugIn = PrivateAttr()

    @model_validator(mode="after")
    def _find(self, info: ValidationInfo) -> PlugInSettings:
        name = getattr(self, self.named_by)
        if name not in names(self.group):
            expected = f"{self.built_in}name a plug-in ({installed(self.group)})"
            raise unfit(expected, key=self.named_by, found=f"is '{name}'")
        own = validated(load(self.group, name).SETTINGS, self.model_extra or {}, info)
        self._plug_in = PlugIn(self.group, name, own)
        return self

    @property
    def plug_in(self) -> PlugIn:
        """The plug-in, and its settings."""
        return self._plug_in


def validated(model: type[Settings], values: Mapping[str, Any], info: ValidationInfo) -> Settings:
    """Return a plug-in's settings.

    Raises:
        PydanticCustomError: one is invalid; it has the key, as of the mapping that names the plug-in.
    """
    try:
        return model.model_validate(values, context=info.context)
    except ValidationError as error:
        details = first_error(error, lambda _: "", model).details
        expected, key, found = (str(details[each]) for each in ("expected", "key", "found"))
    raise unfit(expected, key=key, found=found)
