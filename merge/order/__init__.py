"""Order: from the headers of n shards to one merged log."""
