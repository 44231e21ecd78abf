"""Plug-ins for canal-group: an output and a store in SQLite, and a lookup in a CSV file."""
