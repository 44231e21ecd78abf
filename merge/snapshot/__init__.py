"""Snapshots: the rows that there are, read page by page, in the order of a stream that goes on meanwhile."""
