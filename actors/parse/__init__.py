"""Parse: binlog bytes become chunks. Knows sources and their binlogs, nothing of what becomes of the rows."""
