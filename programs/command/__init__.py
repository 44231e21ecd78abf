"""The command line: one file for each command, and files that several commands share."""
