"""The conditions of a rule, part by part: those of filters, of patterns (DEFINE) and of joins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from parser.types import BOOLEAN
from planner.logical import Filter, LogicalPlan, MatchRecognize, Project, Sink
from planner.logical.joins import BinaryJoin
from planner.rewrite import nodes, transform_sink
from planner.scalar import Call, Literal, Scalar
from planner.wording import in_words, words_of

_PARTS = ("AND", "OR")
_TRUE = Literal(True, BOOLEAN.with_nullable(False))


@dataclass(frozen=True)
class Condition:
    """A part of a predicate that is not made of parts. `sink`: the number of the INSERT
    whose plan has the `node`; `at`: the place of the predicate among the node's; `path`: the
    arguments that lead from there to the part."""

    sink: int
    node: Filter | MatchRecognize | BinaryJoin
    at: int
    path: tuple[int, ...]
    expression: Scalar

    def __str__(self) -> str:
        text = in_words(str(self.expression), words_of(self.node))
        if isinstance(self.node, MatchRecognize):
            return f"{self.node.conditions[self.at][0]} AS {text}"
        return text


def conditions_of(sinks: Sequence[Sink]) -> list[Condition]:
    """Returns the conditions of all filters, patterns and joins of plans, in the order of these."""
    return [
        Condition(number, node, at, path, expression)
        for number, sink in enumerate(sinks)
        for node in reversed(list(nodes(sink)))
        if isinstance(node, Filter | MatchRecognize | BinaryJoin)
        for at, predicate in enumerate(node.expressions)
        for path, expression in _leaves(predicate)
        if not isinstance(expression, Literal)  # DEFINE A AS TRUE
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
    node = conditions[0].node
    assert isinstance(node, Filter)
    return Sink(Project(node.input, items), None, job)


def without(sinks: Sequence[Sink], condition: Condition) -> tuple[Sink, ...]:
    """Returns plans in which a condition is left out: of an AND the others decide, of an OR, too;
    where it stands alone, all rows pass."""
    predicates = list(condition.node.expressions)
    left = _without(predicates[condition.at], condition.path)
    predicates[condition.at] = _TRUE if left is None else left
    changed = condition.node.with_expressions(predicates)

    def rule(node: LogicalPlan) -> LogicalPlan:
        same = type(node) is type(changed) and node.digest == condition.node.digest
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
