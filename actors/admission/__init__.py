"""Admission: which callers a listener accepts, and with which limits, before it answers anything."""
