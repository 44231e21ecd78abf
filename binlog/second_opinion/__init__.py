"""The second opinion: the rows of binlogs as mysql-replication reads them, compared with ours."""
