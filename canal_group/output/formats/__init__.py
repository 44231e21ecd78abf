"""Formats: changes as the messages that consumers of queues expect."""

from canal_group.output.formats.arrow import arrow
from canal_group.output.formats.debezium import debezium
from canal_group.output.formats.flat import flat
from canal_group.output.formats.format import Format
from canal_group.output.formats.protobuf import protobuf, read

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
