"""Database: servers of the demo's own, and the processes that run them."""
