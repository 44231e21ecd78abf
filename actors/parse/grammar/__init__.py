"""Grammar: how events make transactions, and transactions chunks."""
