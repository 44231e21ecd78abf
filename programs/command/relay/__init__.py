"""`canal-group relay`, and its metrics."""
