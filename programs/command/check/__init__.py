"""Checks of `canal-group check` beyond the settings: filters against tables, and a second decoder."""
