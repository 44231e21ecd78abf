"""Columns: from table maps and row images to typed Arrow columns and text."""
