"""Looks at jobs every few seconds: whether one is due to start again, or costs more than it may."""
