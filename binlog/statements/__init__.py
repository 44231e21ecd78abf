"""The kind of a statement in a binlog, and the tables that it changes."""
