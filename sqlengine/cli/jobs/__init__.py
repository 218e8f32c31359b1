"""Commands over the jobs of a running server."""
