"""Receivers: they take messages from places that give each of them once, and append them to topics
of the broker, which tables read (ADR 26)."""
