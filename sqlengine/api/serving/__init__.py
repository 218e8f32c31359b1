"""Connections of the server: their limits and deadlines, TLS, and the threads that answer."""
