"""The audit log: who changed or read what, in files of lines that are chained by hashes."""
