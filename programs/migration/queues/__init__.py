"""Queues: canal's message queue modes, of every version, as the file of a relay."""
