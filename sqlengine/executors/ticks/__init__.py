"""Which operators a tick reaches: those for which there is something to do."""
