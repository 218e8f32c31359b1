"""Measures of running jobs: what they cost, and what waits in their state."""
