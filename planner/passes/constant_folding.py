"""Calls of literals become literals."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pyarrow as pa

from parser.limits import present
from parser.types import Root, unit
from planner.analysis.time_zones import uses_zone
from planner.logical import LogicalPlan
from planner.rewrite import map_expressions, rewrite, transform, with_args
from planner.scalar import Call, Literal, Scalar
from udf import registry
from udf.bounds import Growth, size_of
from udf.registry import KernelContext
from udf.vector import LiteralValue, Vector


def constant_folding(plan: LogicalPlan) -> LogicalPlan:
    """Computes calls whose arguments are all literals, or arrays, maps and rows of such (Calcite:
    ReduceExpressionsRule).

    >>> from planner.examples import show
    >>> show("constant_folding", "SELECT a FROM t WHERE b > 2 * 30")
    Filter (b > CAST((2 * 30) AS BIGINT))
      Scan t (topic)
    -->
    Filter (b > 60)
      Scan t (topic)

    The kernels are those that run. What has an error, depends on the time zone, or takes more than
    'folded-size' stays a call.
    """
    return transform(plan, lambda node: map_expressions(node, folded))


def folded(expression: Scalar) -> Scalar:
    """The expression with its constant parts computed."""
    computed = rewrite(expression, _fold)
    # Cut to types last, when all is computed; calls that stay have literal arguments to be cut,
    # too.
    return computed if computed is expression else rewrite(_as_literal(computed), _of_literals)


def _fold(call: Call) -> Scalar:
    result = _computed(call)
    if result is None or result.errors is not None:
        return call
    scalar = result.values if isinstance(result.values, pa.Scalar) else result.values[0]
    if size_of(scalar, 1).total > present().folded_size:
        return call
    known, value = _literal_value(scalar)
    # A NULL in a type that is NOT NULL would be a lie to all who read the type.
    fits = known and (value is not None or call.type.nullable)
    return Literal(value, call.type, call.position) if fits else call


def _computed(call: Call) -> Vector | None:
    """The value of the call as a vector of one row; None where an argument is not constant or has
    an error, or where the function itself is none to compute here."""
    definition = registry.lookup(call.function)
    if definition is None or definition.external or not call.args:
        # External functions are not called at planning time.
        return None
    # First what most calls lack: what is below the others would be visited again and again.
    if not all(isinstance(arg, Literal) or arg.type.children for arg in call.args):
        return None
    if not call.deterministic or uses_zone(call):
        return None
    vectors = [_constant(arg) for arg in call.args]
    constants = [v for v in vectors if v is not None and v.errors is None]
    if len(constants) < len(vectors):
        return None
    if definition.growth is not None and not _is_short(definition.growth, constants):
        return None
    context = KernelContext(1, call.type, tuple(a.type for a in call.args))
    return registry.call(definition, constants, context)


def _is_short(growth: Growth, constants: list[Vector]) -> bool:
    """True if the result is sure to be no longer than a literal may be, before it is computed."""
    sizes = [size_of(v.values, 1, counts=growth.counts) for v in constants]
    return growth.most(1, *sizes) <= present().folded_size


def _constant(arg: Scalar) -> Vector | None:
    """The value of a constant argument. There are no literals of arrays, maps and rows: a call that
    makes one is computed again for each call that reads it."""
    if isinstance(arg, Literal):
        return Vector(pa.scalar(arg.value, arg.type.arrow))
    return _computed(arg) if isinstance(arg, Call) and arg.type.children else None


def _of_literals(call: Call) -> Scalar:
    """The call with its literal arguments cut to their types."""
    return with_args(call, tuple(map(_as_literal, call.args)))


def _as_literal(value: Scalar) -> Scalar:
    """A literal cut to the characters, or the digits of a second, that its type has: kernels may
    return more."""
    if not isinstance(value, Literal):
        return value
    constant, kind = value.value, value.type
    if isinstance(constant, str) and kind.is_string and len(constant) > kind.length:
        return replace(value, value=constant[: kind.length])
    if isinstance(constant, int) and (kind.is_timestamp or kind.root is Root.TIME):
        # Fractions that the precision does not show would still be compared.
        spare = constant % 10 ** (_DIGITS[unit(kind.precision)] - kind.precision)
        return replace(value, value=constant - spare) if spare else value
    return value


# Digits of a second in each unit of Arrow.
_DIGITS = {"ms": 3, "us": 6, "ns": 9}


def _literal_value(scalar: pa.Scalar) -> tuple[bool, LiteralValue]:
    """True if a literal can have the value, and the value: dates and times as integers."""
    if not scalar.is_valid:
        return True, None
    if pa.types.is_temporal(scalar.type):
        return True, scalar.value
    value = scalar.as_py()
    return isinstance(value, bool | int | float | str | bytes | Decimal), value
