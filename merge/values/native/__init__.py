"""The compiled part of values: numbers as text, for the loops of whoever writes them."""
