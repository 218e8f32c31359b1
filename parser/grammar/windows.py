"""ORDER BY, and the windows of OVER and WINDOW."""

from __future__ import annotations

from sqlglot import exp

from parser.grammar.cursor import mark
from parser.grammar.expressions import ExpressionParser
from parser.grammar.reserved import RESERVED


class WindowParser(ExpressionParser):
    """Parses orders and window specifications. The current row is the bound CURRENT_ROW; a frame
    without an end ends there."""

    def at_alias(self) -> bool:
        """True if an alias without AS follows.

        EMIT is RSQLDB's clause in front of WITH and WITHOUT."""
        token = self.token
        if not token.is_name or token.word in RESERVED:
            return False
        return token.word != "EMIT" or self.peek().word not in ("WITH", "WITHOUT")

    def named_window(self) -> exp.Window:
        name = self.identifier("the name of a window")
        self.expect("AS")
        window = self.window_specification()
        window.set("this", name)
        return window

    def window_specification(self) -> exp.Window:
        """([name] [PARTITION BY …] [ORDER BY …] [ROWS | RANGE …] [ALLOW | DISALLOW PARTIAL])"""
        first = self.expect("(")
        base = self.identifier("a window") if self.at_alias() else None
        keys = self.list_of(self.expression) if self.take("PARTITION", "BY") else None
        order = self.order() if self.at("ORDER", "BY") else None
        spec = self._frame() if self.token.word in ("ROWS", "RANGE") else None
        partial = self.take_any("ALLOW", "DISALLOW")
        if partial:
            self.expect("PARTIAL")
        self.expect(")")
        window = exp.Window(
            alias=base, partition_by=keys, order=order, spec=spec, over="OVER", partial=partial
        )
        return mark(window, first)

    def _frame(self) -> exp.WindowSpec:
        first = self.advance()
        if self.take("BETWEEN"):
            start, start_side = self._bound()
            self.expect("AND")
            end, end_side = self._bound()
        else:
            (start, start_side), (end, end_side) = self._bound(), ("CURRENT_ROW", None)
        node = exp.WindowSpec(
            kind=first.word, start=start, start_side=start_side, end=end, end_side=end_side
        )
        return mark(node, first)

    def _bound(self) -> tuple[exp.Expression | str, str | None]:
        """The bound of a frame, and whether it is PRECEDING or FOLLOWING (None for the current
        row)."""
        if self.take("CURRENT", "ROW"):
            return "CURRENT_ROW", None
        value: exp.Expression | str = "UNBOUNDED" if self.take("UNBOUNDED") else self.expression()
        return value, self.one_of("PRECEDING", "FOLLOWING")

    def order(self) -> exp.Order:
        first = self.expect("ORDER", "BY")
        return mark(exp.Order(expressions=self.list_of(self.ordered)), first)

    def ordered(self) -> exp.Ordered:
        """Parses an item of ORDER BY.

        Without NULLS FIRST or LAST, NULL is the smallest value, as in Flink."""
        value = self.expression()
        descending = self.take_any("ASC", "DESC") == "DESC"
        nulls_first = not descending
        if self.take("NULLS"):
            nulls_first = self.take("FIRST")
            if not nulls_first:
                self.expect("LAST")
        return exp.Ordered(this=value, desc=descending, nulls_first=nulls_first)
