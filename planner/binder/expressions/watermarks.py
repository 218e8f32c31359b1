"""CURRENT_WATERMARK(rowtime), which asks for a time attribute: all other functions see plain
times."""

from __future__ import annotations

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError
from parser.types import DataType
from planner.binder.expressions.calls import REWRITES
from planner.scalar import Call, Scalar


def _current_watermark(name: str, args: tuple[Scalar, ...], node: exp.Expression) -> Scalar:
    if len(args) != 1 or not args[0].type.is_rowtime:
        given = ", ".join(str(a.type) for a in args)
        hint = "give it the column for which its table declares a WATERMARK"
        detail = f"a time attribute expected, but ({given}) given"
        raise PlanError(
            f"cannot apply '{name}'", detail=detail, hint=hint, position=position_of(node)
        )
    return Call(name, args, DataType(args[0].type.root, precision=3), False, position_of(node))


def register_binders() -> None:
    """Registers the rewrite of CURRENT_WATERMARK."""
    REWRITES["CURRENT_WATERMARK"] = _current_watermark
