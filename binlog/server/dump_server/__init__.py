"""A reader's side of a dump server, the process that dumps a source for all its readers on a machine."""
