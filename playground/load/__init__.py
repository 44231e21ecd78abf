"""Load: the tables that the demo writes to, and the transactions that it writes."""
