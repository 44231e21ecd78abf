"""Routing: the topic and the partition of each change, by canal's rules."""
