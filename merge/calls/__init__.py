"""Calls: what consumers and operators ask of a destination, each declared once, with its right."""
