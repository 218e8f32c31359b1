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
    """Binds SUPPRESSED(time, period, rows[, more]) or REACHED(time, period, rows), whose column is
    `fresh`. `column` gives the name of the column with a value. SqlError for other arguments, or a
    frame."""
    name, place = call.name.upper(), position_of(call)
    known = len(args) == 3 or (len(args) == 4 and name == "SUPPRESSED")
    period = _constant(args[1], Root.INTERVAL_DAY_TIME) if known else 0
    rows = _constant(args[2], Root.INT) if known else 0
    is_number = all(value.type.root is Root.BIGINT for value in args[3:])
    if not period or not rows or not is_number or not args[0].type.is_timestamp:
        raise PlanError(
            f"{name} takes a time, a constant interval and a number of rows from 1 on",
            hint=f"write {name}(ts, INTERVAL '1' HOUR, 1)",
            position=place,
        )
    if frame.is_rows or frame.preceding is not None:
        hint = "leave ROWS or RANGE out"
        raise UnsupportedError(f"{name} has no frame", hint=hint, position=place)
    columns = tuple(column(args[i]) for i in (0, *range(3, len(args))))
    return alert_column(fresh, name, columns, args[0].type, (period, rows))


def alert_column(
    name: str, function: str, columns: tuple[str, ...], kind: DataType, most: tuple[int, int]
) -> OverCall:
    """The call of SUPPRESSED or REACHED over the columns of its time, of type `kind`, and of the
    number that rows bring along. `most`: the period (ms), and the rows in it."""
    plain = kind.as_attribute(TimeAttribute.NONE)
    return OverCall(name, function, columns, _TYPES[function], plain, most)


def _constant(value: Scalar, root: Root) -> int:
    """The value of a literal of that type above zero; 0 for anything else."""
    value = folded(value)
    given = value.value if isinstance(value, Literal) and value.type.root is root else 0
    return given if isinstance(given, int) and given > 0 else 0
