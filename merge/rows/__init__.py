"""Rows: the rows of a batch in merged order, its two formats, and filters of tables."""
