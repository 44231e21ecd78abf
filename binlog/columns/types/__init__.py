"""Column types: how values of each type byte are stored, each family in a module."""
