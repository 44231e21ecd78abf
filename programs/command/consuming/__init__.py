"""What `canal-group consume` prints: rows, and how far a snapshot is."""
