"""The sink: which tables are kept and what they are called."""
