"""Trees and statements back to SQL. Importing the package registers the writers of all nodes."""

from __future__ import annotations

from parser.writer import calls, expressions, queries, windows

__all__ = ["calls", "expressions", "queries", "windows"]
