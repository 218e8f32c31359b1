"""SUPPRESSED and REACHED with OVER: rows that are alerts, counted in times that begin with one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError, UnsupportedError
from parser.types import BIGINT, BOOLEAN, DataType, Root, TimeAttribute
from planner.logical import Frame, OverCall
from planner.passes.constant_folding import folded
from planner.scalar import Literal, Scalar

_TYPES: Final = {"SUPPRESSED": BIGINT, "REACHED": BOOLEAN.with_nullable(False)}


def alert_call(
    fresh: str,
    call: exp.Expression,
    args: tuple[Scalar, ...],
    frame: Frame,
    column: Callable[[Scalar], str],
) -> OverCall:
    """Binds SUPPRESSED(time, period, rows) or REACHED(time, period, rows), whose column is `fresh`.
    `column` gives the name of the column with a value. SqlError for other arguments, or a frame."""
    name, place = call.name.upper(), position_of(call)
    period = _constant(args[1], Root.INTERVAL_DAY_TIME) if len(args) == 3 else 0
    rows = _constant(args[2], Root.INT) if len(args) == 3 else 0
    if not period or not rows or not args[0].type.is_timestamp:
        raise PlanError(
            f"{name} takes a time, a constant interval and a number of rows from 1 on",
            hint=f"write {name}(ts, INTERVAL '1' HOUR, 1)",
            position=place,
        )
    if frame.is_rows or frame.preceding is not None:
        hint = "leave ROWS or RANGE out"
        raise UnsupportedError(f"{name} has no frame", hint=hint, position=place)
    return alert_column(fresh, name, column(args[0]), args[0].type, period, rows)


def alert_column(
    name: str, function: str, time: str, kind: DataType, period_ms: int, rows: int
) -> OverCall:
    """The call of SUPPRESSED or REACHED over the column `time`, of type `kind`."""
    plain = kind.as_attribute(TimeAttribute.NONE)
    return OverCall(name, function, (time,), _TYPES[function], plain, (period_ms, rows))


def _constant(value: Scalar, root: Root) -> int:
    """The value of a literal of that type above zero; 0 for anything else."""
    value = folded(value)
    given = value.value if isinstance(value, Literal) and value.type.root is root else 0
    return given if isinstance(given, int) and given > 0 else 0
