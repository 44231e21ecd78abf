"""Server: a running MySQL or MariaDB as the source of a shard's binlog."""
