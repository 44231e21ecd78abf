"""Database: servers of the playground's own, and the processes that run them."""
