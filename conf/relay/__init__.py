"""Relay: what `canal-group relay` is told."""
