"""Column types: one table with a row for each, of which all that knows types by name or number is made."""
