"""Stored: what the group keeps under its epoch, by kind: cursors, histories of definitions, documents."""
