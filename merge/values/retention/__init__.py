"""Retention: the rules by which an archive keeps files for later readers."""
