"""What a Python program does with an engine: connections, results, tables, jobs, topics."""
