"""Averages and sums that Flink makes of one sum and one count (AggregateReduceFunctionsRule)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeAlias

from parser.types import Schema
from planner.logical import AggregateCall

# Function, argument, filter: calls that agree in these are computed once.
_Part: TypeAlias = tuple[str, str | None, str | None]


def kind_of(call: AggregateCall) -> str:
    """Returns the function without DISTINCT."""
    return call.function.partition(" ")[0]


def made_of_sums(calls: Sequence[AggregateCall], below: Schema, keys: Collection[str] = ()) -> bool:
    """Returns True if Flink makes all averages and sums among the calls of other calls.

    It always does beside a variance, else where that leaves fewer of them. AVG, MIN and MAX of
    `keys` are these, and no calls then."""
    if any(kind_of(c).startswith(("VAR", "STDDEV")) for c in calls):
        return True
    parts = {part for c in calls if not _is_its_key(c, keys) for part in _parts(c, below)}
    return len(parts) < len({_part(c.function, c, below) for c in calls})


def begin_at_zero(calls: Sequence[AggregateCall], below: Schema) -> bool:
    """Returns True if the sums that averages are made of begin with 0, and not with their first
    value.

    They do where a SUM is of the same argument, since all calls that are `made_of_sums` are made
    alike once more if that leaves fewer."""
    totals = {_part(c.function, c, below) for c in calls if kind_of(c) == "SUM"}
    return any(_parts(c, below)[0] in totals for c in calls if kind_of(c) == "AVG")


def _is_its_key(call: AggregateCall, keys: Collection[str]) -> bool:
    return (
        kind_of(call) in ("AVG", "MIN", "MAX")
        and call.argument in keys
        and call.filter_column is None
    )


def _parts(call: AggregateCall, below: Schema) -> list[_Part]:
    kind = kind_of(call)
    if kind not in ("AVG", "SUM"):
        return [_part(call.function, call, below)]
    total = _part(call.function.replace("AVG", "SUM"), call, below)
    if kind == "SUM" and not call.type.nullable:
        return [total]
    return [total, _part(call.function.replace(kind, "COUNT"), call, below)]


def own_name(function: str) -> str:
    """The function of a call that was made of sums, as people write it."""
    return function.removesuffix(" SUMMED").removesuffix(" DIVIDED")


def _part(function: str, call: AggregateCall, below: Schema) -> _Part:
    """COUNT of what is never NULL is COUNT(*)."""
    argument = call.argument
    if function == "COUNT" and argument is not None and not below.type(argument).nullable:
        argument = None
    return function, argument, call.filter_column
