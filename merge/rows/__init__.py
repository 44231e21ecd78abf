"""Rows: the rows of a batch in merged order, its two formats, and which tables are wanted."""
