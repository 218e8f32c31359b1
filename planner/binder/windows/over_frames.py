"""Binds the frame of an OVER window: ROWS or RANGE, and its bounds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from decimal import Decimal

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError, UnsupportedError
from parser.types import DataType, Root
from planner.logical import Frame
from planner.passes.constant_folding import folded
from planner.scalar import Literal, Scalar
from udf.numbers.decimals import EXACT

Bind = Callable[[exp.Expression], Scalar]

_CURRENT = ("CURRENT ROW", "CURRENT_ROW")
_NUMBERS = frozenset({Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT})
_ANY_NUMBERS = _NUMBERS | {Root.DECIMAL, Root.FLOAT, Root.DOUBLE}
_TIMES = frozenset({Root.INTERVAL_DAY_TIME})


def frame_of(
    node: exp.Expression | None, bind: Bind, order_types: Sequence[DataType] | None
) -> Frame:
    """Binds the frame of a window.

    `order_types` are the types of ORDER BY in batch mode, where a frame may reach rows that follow
    the current one; None for streams, whose frames end with the current row. UnsupportedError for
    frames that Flink does not have in this mode, PlanError for a bound that is no distance."""
    if node is None:
        return Frame()
    is_rows = node.args.get("kind") == "ROWS"
    roots = _NUMBERS if is_rows else _TIMES if order_types is None else _distances(order_types)
    if order_types is not None and not node.args.get("exclude"):
        start = _bound(node, ("start", "PRECEDING"), roots, bind)
        end = (
            _bound(node, ("end", "FOLLOWING"), roots, bind)
            if node.args.get("end") is not None
            else Decimal(0)
        )
        return _scaled(is_rows, start, end)
    position = position_of(node)
    if node.args.get("end") not in (None, "CURRENT ROW", "CURRENT_ROW") or node.args.get("exclude"):
        raise UnsupportedError("an OVER frame must end with CURRENT ROW", position=position)
    if node.args.get("start") not in _CURRENT and node.args.get("start_side") != "PRECEDING":
        raise UnsupportedError("an OVER frame must begin before the current row", position=position)
    return _scaled(is_rows, _bound(node, ("start", "PRECEDING"), roots, bind), Decimal(0))


def _scaled(is_rows: bool, start: Decimal | None, end: Decimal | None) -> Frame:
    """Returns the frame with integer bounds, in units of the smallest decimal place of both."""
    scale = max((0, *(-int(b.as_tuple().exponent) for b in (start, end) if b is not None)))
    first, last = (None if b is None else int(b.scaleb(scale, EXACT)) for b in (start, end))
    return Frame(is_rows, first, last, scale)


def _distances(order_types: Sequence[DataType]) -> frozenset[Root]:
    """Returns the types that a RANGE bound may have in this order; none if it takes no bound."""
    if len(order_types) != 1:
        return frozenset()
    (kind,) = order_types
    if kind.root in _ANY_NUMBERS:
        return _ANY_NUMBERS
    return _TIMES if kind.is_timestamp or kind.root is Root.DATE else frozenset()


def _bound(
    node: exp.Expression, which: tuple[str, str], roots: Collection[Root], bind: Bind
) -> Decimal | None:
    """The distance of the frame's start or end from the current row; None if it is unbounded.

    It is positive to the usual side (PRECEDING for the start), and negative to the other."""
    end, usual = which
    bound, side = node.args.get(end), node.args.get(f"{end}_side")
    if bound in _CURRENT:
        return Decimal(0)
    if bound == "UNBOUNDED":
        return None
    assert isinstance(bound, exp.Expression)
    if not roots:
        detail = "it takes one column of numbers, DATE, TIMESTAMP or TIMESTAMP_LTZ"
        raise UnsupportedError(
            "RANGE by a distance in this order is not supported",
            detail=detail,
            position=position_of(node),
        )
    value = folded(bind(bound))
    given = value.value if isinstance(value, Literal) and value.type.root in roots else None
    if not isinstance(given, int | float | Decimal) or given < 0:
        what = (
            "an interval of days to seconds"
            if roots is _TIMES
            else "a number" + " of rows" * (roots is _NUMBERS)
        )
        begin = "begin" if end == "start" else "end"
        raise PlanError(
            f"the frame must {begin} {what} before the current row", position=position_of(node)
        )
    return Decimal(str(given)) if side == usual else -Decimal(str(given))
