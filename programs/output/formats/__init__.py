"""Formats: changes as the messages that consumers of queues expect."""

from canal_group.programs.output.formats.arrow import arrow
from canal_group.programs.output.formats.debezium import debezium
from canal_group.programs.output.formats.flat import flat
from canal_group.programs.output.formats.format import Format
from canal_group.programs.output.formats.protobuf import protobuf, read

#: by the name in the settings
_FORMATS = {
    "arrow": Format(arrow),
    "debezium": Format(debezium),
    "flat": Format(flat),
    "protobuf": Format(protobuf, read),
}


def format_of(name: str) -> Format:
    """Return a format by its name in the settings."""
    return _FORMATS[name]
