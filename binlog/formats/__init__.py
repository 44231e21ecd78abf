"""Formats: the bytes of events, one module for each format; rows and their columns are in `columns`."""
