"""What people start: the command line, the relay, the import from canal, the demo. Nothing imports this."""
