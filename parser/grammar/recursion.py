"""The recursive entries of the grammar, declared apart from the files that implement them.

The grammar is recursive: a call holds expressions, an expression holds queries, a query holds
calls. Each file of the grammar takes a `RecursiveCursor` and so needs none of the others;
`parser.grammar.queries.QueryParser`, the class at the end of the chain, implements all of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from sqlglot import exp

from parser.grammar.cursor import Cursor


class RecursiveCursor(Cursor, ABC):
    """A cursor that can also parse nested expressions and queries."""

    @abstractmethod
    def expression(self, minimum: int = 0) -> exp.Expression:
        """Parses an expression of operators that bind at least as tightly as `minimum`."""

    @abstractmethod
    def rest_of(self, left: exp.Expression) -> exp.Expression:
        """Parses the rest of an expression whose first operand, `left`, has been read."""

    @abstractmethod
    def named(self) -> exp.Expression:
        """Parses what begins with a word: a call, a niladic function or a column."""

    @abstractmethod
    def column(self) -> exp.Expression:
        """Parses a path of names, `t.*`, or a call by a qualified or quoted name."""

    @abstractmethod
    def with_suffixes(self, value: exp.Expression) -> exp.Expression:
        """Parses the indexes, fields and method calls behind `value`, if there are any."""

    @abstractmethod
    def at_query(self) -> bool:
        """True if a query begins here, perhaps in parentheses of its own."""

    @abstractmethod
    def query(self) -> exp.Expression:
        """Parses a query without parentheses around it."""

    @abstractmethod
    def query_from(self, left: exp.Expression) -> exp.Expression:
        """Parses the rest of a query whose first operand, `left`, has been read."""

    @abstractmethod
    def order(self) -> exp.Order:
        """Parses ORDER BY and its items."""

    @abstractmethod
    def ordered(self) -> exp.Ordered:
        """Parses one item of ORDER BY."""

    @abstractmethod
    def window_specification(self) -> exp.Window:
        """Parses the name or the parentheses behind OVER."""

    @abstractmethod
    def at_alias(self) -> bool:
        """True if an alias without AS follows."""
