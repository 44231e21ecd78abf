"""Retention: what an archive keeps for those who read later."""
