"""Where a stream of a server begins: at a position, a time, the ends of its binlog."""
