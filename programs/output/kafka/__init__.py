"""What the Kafka output is made of: what its failures mean, and where its position is kept."""
