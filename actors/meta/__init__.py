"""Meta: where a group keeps cursors, schema histories and decisions."""
