"""Rows that clients push over HTTP: an inbox takes them, and answers once they are in its log."""
