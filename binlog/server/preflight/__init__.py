"""Whether a source can be followed, and what must be changed first."""
