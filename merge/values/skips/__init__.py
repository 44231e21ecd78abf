"""Events that operators leave out."""
