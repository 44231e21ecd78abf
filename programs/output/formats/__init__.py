"""Formats: changes as the messages that consumers of queues expect."""

from programs.output.formats.arrow import arrow
from programs.output.formats.debezium import debezium
from programs.output.formats.flat import flat
from programs.output.formats.format import Format
from programs.output.formats.protobuf import protobuf, read

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
