"""Files: binlogs and relay logs on a disk as the source of a shard."""
