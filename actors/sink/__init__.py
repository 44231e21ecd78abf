"""Sink: which tables are kept, and under which names."""
