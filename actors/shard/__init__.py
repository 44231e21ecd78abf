"""Shard: the actor that owns one source, its reader and its ring store."""
