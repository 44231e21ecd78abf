"""The connection that dumps a source, and what it requests."""
