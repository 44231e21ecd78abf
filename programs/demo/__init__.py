"""The demo without servers: recorded shards, and the check that a stream is what was written."""
