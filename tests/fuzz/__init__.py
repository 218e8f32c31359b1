"""Random queries over random tables: what we say beside what real Flink says. `python -m tests.fuzz
--help`."""
