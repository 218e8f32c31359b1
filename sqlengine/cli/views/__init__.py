"""Tables of what jobs cost, and of those that ran at a moment of the past."""
