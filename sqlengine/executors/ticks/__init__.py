"""Keeps ticks from operators that have nothing to do."""
