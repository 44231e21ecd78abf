"""Column types: one table of them all, each type in the module of its family."""
