"""Expressions that have a value for every row: passes may move those without causing an error.

Functions declare it themselves (`udf.registry.Total`)."""

from __future__ import annotations

from parser.types import INTEGERS, Root
from planner.scalar import Call, Literal, Scalar, walk
from udf.registry import Total, traits_of

# By the type that an integer is cast to, those that fit into it.
_LOSSLESS = {root: frozenset(INTEGERS[: i + 1]) for i, root in enumerate(INTEGERS)}


def can_fail(expression: Scalar) -> bool:
    """True if some row may have an error in the place of a value, or if that is not known."""
    return any(isinstance(n, Call) and not _is_total(n) for n in walk(expression))


def is_never_refused(function: str) -> bool:
    """True if no call of a function fails at run time once it is bound, whatever its arguments'
    types: a pattern that is a literal has been checked then."""
    return traits_of(function).total in (Total.ALWAYS, Total.WITH_CONSTANTS)


def _is_total(call: Call) -> bool:
    match traits_of(call.function).total:
        case Total.ALWAYS:
            return True
        case Total.WITH_CONSTANTS:
            return all(isinstance(a, Literal) for a in call.args[1:])
        case Total.OF_INTEGERS:
            return all(a.type.is_integer for a in call.args)
        case Total.BY_CAST:
            return _loses_nothing(call)
    return False


def _loses_nothing(cast: Call) -> bool:
    source, target = cast.args[0].type, cast.type
    if target.root is Root.VARCHAR or source.root is Root.NULL:
        return True
    return source.root in _LOSSLESS.get(target.root, ()) or (
        target.root is Root.DOUBLE and source.is_numeric
    )
