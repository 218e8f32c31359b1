"""Conventions of all routes: pages of lists, entity tags, keys of requests, dry runs."""
