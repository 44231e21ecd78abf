"""Command: the command line, one file a command or a matter that several share."""
