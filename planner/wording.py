"""Texts about plans for people who know the words of their SQL: columns that have no name there
are what they are made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from planner.logical import LogicalPlan, NewTerm, Over, Project
from planner.logical.over import OverCall
from planner.rewrite import nodes
from planner.scalar import ColumnRef

# Columns beside those of alerts: the clock, the time that maintenance asks for, and what each field
# of a rule's head makes of them.
ALERT: Final = "alert$"
ALERT_CLOCK, ALERT_LOCAL = ALERT + "clock", ALERT + "local"
_UNITS: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}


def named(plan: LogicalPlan) -> str:
    """Returns the name of an operation as people read it."""
    if isinstance(plan, Over) and plan.calls[0].name.startswith(ALERT):
        return _limit(plan, plan.calls[0])
    text = f"{type(plan).__name__} {plan.label}".rstrip()
    if "$" not in text:
        return text
    words = words_of(plan)
    return in_words(in_words(_plain(text), {f" AS {name}": "" for name in words}), words)


def words_of(node: LogicalPlan) -> Mapping[str, str]:
    """Returns words for columns of a node or below it that have no name in the text: of the nearest
    nodes that make them."""
    found: dict[str, str] = {}
    for below in nodes(node):
        for name, text in _made(below):
            if "$" in name:
                found.setdefault(name, text)
    for name, text in reversed(list(found.items())):  # what is below is in words first
        found[name] = in_words(text, {n: t for n, t in found.items() if n != name})
    return found


def in_words(text: str, words: Mapping[str, str]) -> str:
    """Returns a text in which columns have other names."""
    if "$" not in text:
        return text
    for name in sorted(words, key=len, reverse=True):  # …$10 before …$1
        text = text.replace(name, words[name])
    return text


def _made(node: LogicalPlan) -> Iterator[tuple[str, str]]:
    """Yields the columns that a node makes, each with the text of its value."""
    calls = node.calls if isinstance(node, Over) else getattr(node, "aggregates", ())
    for call in calls:
        field = call.name.removeprefix(ALERT)
        text = _plain(str(call).rpartition(" AS ")[0])
        yield call.name, text if field == call.name else field
    if isinstance(node, NewTerm):
        yield node.name, f"NEW_TERM({', '.join(node.terms)})"
    for name, value in node.items if isinstance(node, Project) else ():
        if not isinstance(value, ColumnRef) or value.name != name:
            yield name, str(value)


def _plain(text: str) -> str:
    """A text of calls as SQL has it, which counts all rows with a star."""
    return text.replace("COUNT()", "COUNT(*)")


def _limit(plan: Over, call: OverCall) -> str:
    """Returns a limit of alerts as a rule's head has it: 'suppress: 1 in 1h by host'."""
    period, most = call.constants
    unit, size = next((u, ms) for u, ms in _UNITS.items() if period % ms == 0)
    by = f" by {', '.join(plan.partition)}" if plan.partition else ""
    return f"{call.name.removeprefix(ALERT)}: {most} in {period // size}{unit}{by}"
