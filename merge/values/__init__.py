"""Values: what the rest of the merge computes with: positions, GTID sets, headers, chunks."""
