"""What a relay decides: what it retains of a binlog, where a reader attaches, when it may claim idleness."""
