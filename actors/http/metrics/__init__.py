"""Metrics: what instances and relays say of themselves, as Prometheus's families."""
