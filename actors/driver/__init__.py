"""Driver: starts Ray and the actors of a server's instances, replaces them, and ends them."""
