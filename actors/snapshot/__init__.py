"""Pages of snapshots in a shard: where they enter its stream."""
