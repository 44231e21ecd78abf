"""The archive: a durable copy of the binlogs of sources, byte for byte."""
