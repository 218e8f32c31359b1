"""AVG and the variances with OVER: Flink makes them from sums and counts, in the type of the
argument, and so do we, since integers that are cut and sums that wrap around show it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TypeAlias

from sqlglot import exp

from parser.types import BIGINT, decimal
from planner.binder.expressions import literals
from planner.binder.expressions.calls import function_call
from planner.binder.expressions.casts import cast, implicit_cast
from planner.scalar import Literal, Scalar
from udf.aggregates.registry import bind_aggregate

# The column of SUM or COUNT of a value over the frame.
Total: TypeAlias = Callable[[str, Scalar], Scalar]

_HALF = Literal(Decimal("0.5"), decimal(2, 1).with_nullable(False))


def average(value: Scalar, total: Total, node: exp.Expression) -> Scalar:
    """AVG as SUM / COUNT."""
    kind = bind_aggregate("AVG", (value.type,), grouped=True).result_type
    found = function_call("/", (total("SUM", value), total("COUNT", value)), node)
    return cast("CAST", found, kind, node)


def _spread(sample: bool, root: bool) -> Callable[[Scalar, Total, exp.Expression], Scalar]:
    def made(value: Scalar, total: Total, node: exp.Expression) -> Scalar:
        name = f"{'STDDEV' if root else 'VAR'}_{'SAMP' if sample else 'POP'}"
        kind = bind_aggregate(name, (value.type,), grouped=True).result_type
        held = implicit_cast(value, kind, node)
        count = total("COUNT", held)
        plain, squares = total("SUM", held), total("SUM", function_call("*", (held, held), node))
        number = implicit_cast(count, kind, node)
        mean = function_call("/", (function_call("*", (plain, plain), node), number), node)
        found = function_call("-", (squares, mean), node)
        found = function_call("/", (found, _less_one(count, node) if sample else number), node)
        found = function_call("POWER", (found, _HALF), node) if root else found
        return cast("CAST", found, kind, node)

    return made


def _less_one(count: Scalar, node: exp.Expression) -> Scalar:
    """Returns the number of values less one; NULL for a single one."""
    one = Literal(1, BIGINT.with_nullable(False))
    single = function_call("=", (count, one), node)
    return function_call(
        "CASE", (single, literals.null(BIGINT), function_call("-", (count, one), node)), node
    )


MOMENTS: Mapping[str, Callable[[Scalar, Total, exp.Expression], Scalar]] = {
    "AVG": average,
    "VAR_POP": _spread(sample=False, root=False),
    "VAR_SAMP": _spread(sample=True, root=False),
    "VARIANCE": _spread(sample=True, root=False),
    "STDDEV_POP": _spread(sample=False, root=True),
    "STDDEV_SAMP": _spread(sample=True, root=True),
    "STDDEV": _spread(sample=True, root=True),
}
