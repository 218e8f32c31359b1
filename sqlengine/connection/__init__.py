"""Connections of Python programs: results, tables of their objects, jobs, topics, notebooks."""
