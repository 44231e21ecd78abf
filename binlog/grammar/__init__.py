"""Grammar: how events form transactions, and transactions form chunks."""
