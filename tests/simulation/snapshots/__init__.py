"""A simulated world of snapshots: real shards and a real group, over sources that flush, sync and commit."""
