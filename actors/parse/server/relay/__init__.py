"""A reader's side of a relay, the process that dumps a source for all its readers on a machine."""
