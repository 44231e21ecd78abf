"""Stores of cursors and of schema histories."""
