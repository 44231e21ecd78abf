"""Clauses: statements that define something, cut into tokens, and read clause by clause."""
