"""Transport: calls and rows between the processes of an instance."""
