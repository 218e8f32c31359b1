"""TLS of connectors: the files that tables name, and what goes wrong with them."""
