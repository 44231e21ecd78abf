"""What the Kafka output is made of: whole batches for its client library, what its failures mean, its position."""
