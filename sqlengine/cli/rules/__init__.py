"""Commands over rules that need no server."""
