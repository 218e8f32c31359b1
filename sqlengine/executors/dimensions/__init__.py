"""Versions of tables that rows are looked up in: read and built beside the stream."""
