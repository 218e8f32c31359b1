"""SQLAlchemy's own suite for dialects: what is claimed, and what is left out."""
