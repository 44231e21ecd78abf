"""Shard: the actor that owns a source, the source's reader and the ring store."""
