"""A simulated world around the machines of `merge/`: one seed is one schedule, the same in every run."""
