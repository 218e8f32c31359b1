"""Following the changes of tables in databases: the log of a table, and how it is read (ADR 27)."""
