"""What connectors have in common that follow the changes of tables in databases: what is kept of a
change in a log, and how it is read (ADR 28)."""
