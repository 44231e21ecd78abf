"""What tells a binlog from another one that has the same names and numbers."""
