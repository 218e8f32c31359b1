"""Logs of a server: where they go, and how many lines others may cause."""
