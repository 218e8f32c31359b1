"""A condition of a rule as the WHERE of a statement.

NOT is IS NOT TRUE: an event without the field is not one of those that are ruled out."""

from __future__ import annotations

from sqlengine.sigma.predicates import test
from sqlengine.sigma.reading import Reading
from sqlengine.sigma.rules import All, Condition, Match, Not, Some, fields_of


def where(condition: Condition, reading: Reading) -> str:
    """Returns a condition as SQL, with that of the log source. Unconvertible with all that is in
    the way."""
    own = condition if reading.match is None else All((reading.match, condition))
    reading.check(fields_of(own))
    written = _write(own, reading)
    if reading.condition is None:
        return written
    return f"({reading.condition}) AND {_operand(own, reading)}"


def _write(condition: Condition, reading: Reading) -> str:
    match condition:
        case Match():
            return test(condition, reading)
        case Not(child):
            return f"({_write(child, reading)}) IS NOT TRUE"
        case All(children):
            return " AND ".join(_operand(c, reading) for c in children)
        case Some(children):
            return " OR ".join(_operand(c, reading) for c in children)


def _operand(condition: Condition, reading: Reading) -> str:
    written = _write(condition, reading)
    nested = isinstance(condition, All | Some) and len(condition.children) > 1
    return f"({written})" if nested else written
