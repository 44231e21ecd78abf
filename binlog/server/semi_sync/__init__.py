"""Semi-synchronous replication: replies that tell a source which of its transactions are safe here."""
