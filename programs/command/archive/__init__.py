"""`canal-group archive`: what an archive of binlogs holds, and what an operator does with it."""
