"""SQL text to typed statements. `parse` is the way in; `parser.dialect` says what a parsed
expression consists of.

The grammar, and sqlglot with it, is loaded on first use: whoever needs `parser.errors` only (the
command line, the client of a server) does not pay for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["parse", "parse_condition", "parse_pieces", "parse_query"]

if TYPE_CHECKING:
    from parser.parsing import parse, parse_condition, parse_pieces, parse_query
else:

    def __getattr__(name: str) -> object:
        """Loads what the package exports (PEP 562)."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from parser import parsing

        return getattr(parsing, name)
