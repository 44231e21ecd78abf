"""Settings of an instance's archive of binlogs."""
