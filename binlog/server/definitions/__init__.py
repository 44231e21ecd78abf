"""Definitions of a server's tables: what it shows now, and the statements that led there."""
