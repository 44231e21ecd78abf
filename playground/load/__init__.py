"""Load: the transactions that the demo writes, and what they leave."""
