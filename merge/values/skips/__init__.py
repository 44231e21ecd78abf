"""Events that operators leave out: which, and what consumers get in their place."""
