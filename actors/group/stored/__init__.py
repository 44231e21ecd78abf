"""Stored: what the group keeps under its epoch: histories of definitions, events left out, types chosen."""
