"""Which of the DDL statements on tables with one name are delivered (`merge.ddl`)."""
