"""Changes of tables of PostgreSQL: a snapshot, then what its log tells (ADR 27)."""
