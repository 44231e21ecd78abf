"""A simulated world around the real machines of `merge/`: one seed, one schedule, the same every time."""
