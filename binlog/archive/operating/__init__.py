"""Operating: what people do with an archive, and what is decided for them: what to remove, when to stop."""
