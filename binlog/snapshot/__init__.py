"""Snapshot: the rows of tables as a server shows them now, as its binlog would have them."""
