"""Acts: everything that touches the world, on behalf of the decisions made in `merge`."""
