"""Faults among real processes: a seed is a schedule of them, and an audit says whether the stream held."""
