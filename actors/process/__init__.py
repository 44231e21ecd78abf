"""What every process of ours uses of its machine: clocks, threads, files, imports."""
