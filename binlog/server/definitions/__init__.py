"""Definitions of a server's tables: the present definitions, and the statements that led to them."""
