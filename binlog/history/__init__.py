"""Schema history: what the tables of a source were when their rows were written."""
