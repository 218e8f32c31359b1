"""Looks at jobs every few seconds: whether one is due to start again, costs more than it may, or
holds others up."""
