"""Counts what data from outside would take in memory, before it is made."""
