"""The life of a rule: its head, its tests, where it runs, what becomes of it."""
