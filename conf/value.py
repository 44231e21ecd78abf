"""Values: the types of single settings, and the base class of every mapping of settings.

Values are not converted: the text '3306' is not a number and `yes` is not text. `unfit` refuses an invalid
value; its two parts make one sentence: "<key> should <expected>, but <found>."
"""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict, ValidationInfo
from pydantic_core import PydanticCustomError

from canal_group.merge.rows.pattern import Pattern, PatternList
from canal_group.merge.rows.pattern_syntax import PatternSyntax
from canal_group.merge.rows.table_filter import split_patterns
from canal_group.merge.well_known import NAME

#: `type` of the errors that `unfit` makes
UNFIT = "unfit"

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HOST_AND_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:,/\[\]]+):(\d{1,5})")
_PORT_MAX = 65535


S = TypeVar("S", bound="Settings")


class Settings(BaseModel):
    """A mapping of settings: immutable, without unknown keys; pydantic's errors do not show a wrong value."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, hide_input_in_errors=True
    )

    def part(self, base: type[S]) -> S:
        """Return the settings of a base class alone: what of a mapping leaves for another process."""
        return base.model_validate({name: getattr(self, name) for name in base.model_fields})


def default_of(settings: type[Settings], path: str) -> Any:
    """Return the default of a setting, by its path below a mapping that has defaults: `store.size`."""
    first, *rest = path.split(".")
    value: Any = settings.model_fields[first].get_default()
    for key in rest:
        value = getattr(value, key)
    return value


def unfit(expected: str, *, key: str = "", found: str = "") -> PydanticCustomError:
    """Return the error of an invalid value.

    Args:
        expected: what the value should do: "be a power of two".
        key: key of the value, relative to the mapping that is being checked; empty: the value itself.
        found: what it does instead: "is 1000"; empty: the value as it was written.
    """
    return PydanticCustomError(UNFIT, "should {expected}", {"expected": expected, "key": key, "found": found})


def is_name(text: str) -> bool:
    """Return whether `text` is a name: one component of a path, and never a path."""
    return NAME.fullmatch(text) is not None


def is_variable(text: str) -> bool:
    """Return whether `text` can be the name of an environment variable."""
    return _VARIABLE.fullmatch(text) is not None


def is_host_and_port(text: str) -> bool:
    """Return whether `text` is `host:port`, with an IPv6 address in brackets."""
    match = _HOST_AND_PORT.fullmatch(text)
    return match is not None and 1 <= int(match[2]) <= _PORT_MAX


def _name(value: str) -> str:
    if not is_name(value):
        raise unfit("be a name of letters, digits, `_`, `-` and `.` that starts with a letter, digit or `_`")
    return value


def _variable(value: str) -> str:
    if not is_variable(value):
        raise unfit("name an environment variable")
    return value


def _host(value: str) -> str:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        if not value or re.search(r"[\s:,/\[\]]", value):
            raise unfit("be a host name or address, without a port") from None
    return value


def _power_of_two(value: int) -> int:
    if value < 1 or value & (value - 1):
        raise unfit("be a power of two")
    return value


def _hosts(value: str) -> str:
    if not all(is_host_and_port(host) for host in value.split(",")):
        raise unfit("be `host:port`, several separated by commas without spaces")
    return value


def _host_and_port(value: str) -> str:
    if not is_host_and_port(value):
        raise unfit("be `host:port`")
    return value


def _node(value: str) -> str:
    if not re.fullmatch(r"(/(?!\.{1,2}(/|$))[^/\s]+)+", value):
        raise unfit("be a ZooKeeper path such as `/otter/canal`")
    return value


def _ray_address(value: str) -> str:
    if value != "auto" and not is_host_and_port(value):
        raise unfit("be `auto` or `host:port`")
    return value


def _regex(value: str) -> str:
    try:
        Pattern(value)
    except PatternSyntax as error:
        raise unfit(f"be a regular expression ({error})") from None
    return value


def _regex_list(value: str) -> str:
    try:
        PatternList(split_patterns(value))
    except PatternSyntax as error:
        raise unfit(f"be a regular expression ({error})") from None
    return value


def _regex_keys(value: dict[str, str]) -> dict[str, str]:
    for pattern in value:
        try:
            Pattern(pattern)
        except PatternSyntax as error:
            raise unfit(f"have regular expressions as keys ({error})", found=f"has {pattern!r}") from None
    return value


def _anchored(value: Path, info: ValidationInfo) -> Path:
    folder = (info.context or {}).get("folder")
    return value if folder is None else Path(folder) / value


#: a part of file names and ZooKeeper paths
Name: TypeAlias = Annotated[str, AfterValidator(_name)]
#: of the environment
Variable: TypeAlias = Annotated[str, AfterValidator(_variable)]
Text: TypeAlias = Annotated[str, Field(min_length=1)]
#: where to connect to, or to listen
Host: TypeAlias = Annotated[str, AfterValidator(_host)]
Port: TypeAlias = Annotated[int, Field(ge=1, le=_PORT_MAX)]
#: a port to listen on; 0 takes a free one
ListenPort: TypeAlias = Annotated[int, Field(ge=0, le=_PORT_MAX)]
#: a file or folder; a relative one is relative to the folder of the instance file
AnchoredPath: TypeAlias = Annotated[Path, Strict(strict=False), AfterValidator(_anchored)]
Count: TypeAlias = Annotated[int, Field(ge=1)]
PowerOfTwo: TypeAlias = Annotated[int, AfterValidator(_power_of_two)]
Seconds: TypeAlias = Annotated[float, Field(gt=0)]
#: a server
HostAndPort: TypeAlias = Annotated[str, AfterValidator(_host_and_port)]
#: comma-separated `host:port` of ZooKeeper servers
ZookeeperHosts: TypeAlias = Annotated[str, AfterValidator(_hosts)]
ZookeeperPath: TypeAlias = Annotated[str, AfterValidator(_node)]
RayAddress: TypeAlias = Annotated[str, AfterValidator(_ray_address)]
Regex: TypeAlias = Annotated[str, Field(min_length=1), AfterValidator(_regex)]
#: regular expression -> text; at least one
RegexMap: TypeAlias = Annotated[
    dict[Annotated[str, Field(min_length=1)], Annotated[str, Field(min_length=1)]],
    Field(min_length=1),
    AfterValidator(_regex_keys),
]
#: canal's comma-separated regular expressions on `schema.table`; a comma inside brackets does not separate
RegexList: TypeAlias = Annotated[str, AfterValidator(_regex_list)]
