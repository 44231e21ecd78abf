"""Output: publish a destination's changes to message queues and files, batch by batch, in order."""
