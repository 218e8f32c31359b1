"""AVG, variances and standard deviations with OVER, computed from SUM and COUNT.

Flink computes them so, in the type of the argument; truncated integers and sums that overflow make
it visible in results."""

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
    quotient = function_call("/", (total("SUM", value), total("COUNT", value)), node)
    return cast("CAST", quotient, kind, node)


def _spread(sample: bool, root: bool) -> Callable[[Scalar, Total, exp.Expression], Scalar]:
    """Returns the binder of a variance, or of its `root`, the standard deviation.

    It is (SUM(x * x) - SUM(x) * SUM(x) / n) / d, where d is n, or n - 1 for a `sample`."""
    name = f"{'STDDEV' if root else 'VAR'}_{'SAMP' if sample else 'POP'}"

    def spread(value: Scalar, total: Total, node: exp.Expression) -> Scalar:
        def call(function: str, *operands: Scalar) -> Scalar:
            return function_call(function, operands, node)

        kind = bind_aggregate(name, (value.type,), grouped=True).result_type
        x = implicit_cast(value, kind, node)
        # The order of the totals is the order of the columns that OVER adds.
        count = total("COUNT", x)
        total_x, total_squares = total("SUM", x), total("SUM", call("*", x, x))
        n = implicit_cast(count, kind, node)
        deviations = call("-", total_squares, call("/", call("*", total_x, total_x), n))
        variance = call("/", deviations, _less_one(count, node) if sample else n)
        result = call("POWER", variance, _HALF) if root else variance
        return cast("CAST", result, kind, node)

    return spread


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
