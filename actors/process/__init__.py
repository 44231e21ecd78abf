"""Process: what every process of ours takes from its machine: clocks, threads, files, imports."""
