"""Changes of tables of MariaDB: a snapshot, then what its binary log tells (ADR 27)."""
