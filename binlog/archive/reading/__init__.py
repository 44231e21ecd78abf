"""Reading: where a start is in an archive, and the events from there on."""
