"""Parts of the Kafka output: batches for its client library, meanings of failures, its position."""
