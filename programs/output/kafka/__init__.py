"""What the Kafka output is made of: batches for its client library, what its failures mean, its position."""
