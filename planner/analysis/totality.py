"""Which expressions have a value for every row: those that passes may move without making an
error."""

from __future__ import annotations

from parser.types import INTEGERS, Root
from planner.scalar import Call, Literal, Scalar, walk

# Never an error, whatever the data (LIKE only with a constant pattern, which has been checked).
TOTAL = frozenset(
    {
        "AND",
        "OR",
        "NOT",
        "=",
        "<>",
        "<",
        "<=",
        ">",
        ">=",
        "IN",
        "BETWEEN",
        "LIKE",
        "LOWER",
        "UPPER",
        "TRIM",
        "LTRIM",
    }
    | {
        "RTRIM",
        "||",
        "CONCAT",
        "CHAR_LENGTH",
        "COALESCE",
        "CASE",
        "IF",
        "IFNULL",
        "NULLIF",
        "IS NULL",
        "IS NOT NULL",
    }
    | {"TIMESTAMPADD"}
    | {f"IS {n}{w}" for n in ("", "NOT ") for w in ("TRUE", "FALSE", "UNKNOWN", "DISTINCT FROM")}
)
_WRAPPING = frozenset({"+", "-", "*", "NEG"})
_LOSSLESS = {root: frozenset(INTEGERS[: i + 1]) for i, root in enumerate(INTEGERS)}


def can_fail(expression: Scalar) -> bool:
    """Whether some row may have an error instead of a value. TRUE where that is not known."""
    return any(isinstance(n, Call) and not _total(n) for n in walk(expression))


def _total(call: Call) -> bool:
    if call.function == "LIKE":
        return all(isinstance(a, Literal) for a in call.args[1:])
    if call.function in TOTAL:
        return True
    if call.function in _WRAPPING:
        return all(a.type.is_integer for a in call.args)
    return call.function == "CAST" and _total_cast(call)


def _total_cast(call: Call) -> bool:
    source, target = call.args[0].type, call.type
    if target.root is Root.VARCHAR or source.root is Root.NULL:
        return True
    return source.root in _LOSSLESS.get(target.root, ()) or (
        target.root is Root.DOUBLE and source.is_numeric
    )
