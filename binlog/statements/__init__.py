"""What a statement in a binlog is, and which tables it changes."""
