"""Parse: turns binlog bytes into chunks. It knows sources and binlogs, not what happens to the rows later."""
