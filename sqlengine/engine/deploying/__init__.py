"""Puts planned jobs into graphs: which graph each goes into, and the change of each graph."""
