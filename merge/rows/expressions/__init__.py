"""Expressions of rows: their meaning, and that of numbers and dates in them."""
