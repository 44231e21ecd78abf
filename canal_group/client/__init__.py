"""Client: a consumer, its batches, its lease, and readers of ranges of the stream."""
