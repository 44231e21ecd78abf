"""Charsets: text of the servers, by their names and numbers of charsets and collations."""
