"""The conditions of a rule: what it filters by, part by part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from parser.types import BOOLEAN
from planner.logical import Filter, LogicalPlan, Project, Sink
from planner.rewrite import nodes, transform_sink
from planner.scalar import Call, Literal, Scalar

_PARTS = ("AND", "OR")
_TRUE = Literal(True, BOOLEAN.with_nullable(False))


@dataclass(frozen=True)
class Condition:
    """A part of a filter that is not made of parts. `sink`: the number of the INSERT whose plan has
    the `filter`; `path`: the arguments that lead to it from the filter's predicate."""

    sink: int
    filter: Filter
    path: tuple[int, ...]
    expression: Scalar

    def __str__(self) -> str:
        return str(self.expression)


def conditions_of(sinks: Sequence[Sink]) -> list[Condition]:
    """Returns the conditions of all filters of plans, in the order of these."""
    return [
        Condition(number, node, path, expression)
        for number, sink in enumerate(sinks)
        for node in reversed(list(nodes(sink)))
        if isinstance(node, Filter)
        for path, expression in _leaves(node.predicate)
    ]


def _leaves(predicate: Scalar) -> Iterator[tuple[tuple[int, ...], Scalar]]:
    """Yields the parts with their paths. Filters are deeper than Python's stack."""
    waiting: list[tuple[tuple[int, ...], Scalar]] = [((), predicate)]
    while waiting:
        path, expression = waiting.pop()
        if has_parts(expression):
            assert isinstance(expression, Call)
            waiting += [((*path, i), a) for i, a in reversed(list(enumerate(expression.args)))]
        else:
            yield path, expression


def has_parts(expression: Scalar) -> bool:
    """True for an AND and an OR, and for a NOT of these."""
    if not isinstance(expression, Call):
        return False
    if expression.function == "NOT":
        return has_parts(expression.args[0])
    return expression.function in _PARTS


def values_of(conditions: Sequence[Condition], job: str) -> Sink:
    """Returns a plan that gives the values of conditions of one filter for each row that it sees,
    in columns '0', '1' and so on."""
    items = tuple((str(i), c.expression) for i, c in enumerate(conditions))
    return Sink(Project(conditions[0].filter.input, items), None, job)


def without(sinks: Sequence[Sink], condition: Condition) -> tuple[Sink, ...]:
    """Returns plans in which a condition is left out: of an AND the others decide, of an OR, too;
    where it stands alone, all rows pass."""
    predicate = _without(condition.filter.predicate, condition.path)
    changed = replace(condition.filter, predicate=_TRUE if predicate is None else predicate)

    def rule(node: LogicalPlan) -> LogicalPlan:
        same = isinstance(node, Filter) and node.digest == condition.filter.digest
        return changed if same else node

    return tuple(
        transform_sink(sink, rule) if number == condition.sink else sink
        for number, sink in enumerate(sinks)
    )


def _without(expression: Scalar, path: Sequence[int]) -> Scalar | None:
    """The expression without the part at the end of a path; None where nothing is left."""
    if not path:
        return None
    assert isinstance(expression, Call)
    first, *rest = path
    changed = _without(expression.args[first], rest)
    before, after = expression.args[:first], expression.args[first + 1 :]
    args = (*before, *after) if changed is None else (*before, changed, *after)
    if not args:
        return None
    return (
        args[0]
        if len(args) == 1 and expression.function in _PARTS
        else replace(expression, args=args)
    )
