"""Delivery: from the merged log to the batches of each subscriber, and back to its cursor."""
