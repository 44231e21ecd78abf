"""Definitions of a source's tables, as its DDL statements change them."""
