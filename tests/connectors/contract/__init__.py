"""What all connectors promise: a package, so that its servers end with the last test."""
