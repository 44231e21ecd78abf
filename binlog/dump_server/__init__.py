"""The dump server: a process that dumps one source once for all readers of a machine."""
