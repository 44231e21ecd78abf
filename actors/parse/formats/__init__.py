"""Formats: the bytes of events, one format a file; rows and their columns are in `columns`."""
