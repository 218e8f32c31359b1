"""Doubts about rules that can be planned: what they may cost, and what they say twice or never."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from parser.errors import Position
from planner.graph.predicates import to_rule
from planner.logical import Filter, LogicalPlan, NewTerm
from planner.logical.aggregates import GroupAggregate
from planner.logical.joins import BinaryJoin, Join
from planner.logical.node import Stateful
from planner.logical.ranks import Rank
from planner.logical.window_rows import WindowRank
from planner.rewrite import nodes
from planner.scalar import Call, Literal, Scalar, conjuncts_of, walk
from rules.condition import Constant
from sqlengine.trial.cases import CaseFile, Expected
from sqlengine.trial.rules import TrialRule

_MANY: Final = 1000
# The beginnings of functions that take several times as long as others.
_DEAR: Final = ("REGEXP_", "JSON_")
_TTL: Final = "SET 'table.exec.state.ttl' = '1 h' forgets what no row touches for so long"


@dataclass(frozen=True)
class Doubt:
    """A doubt about a rule. `code`: the name of the check; `position`: in the rule's text, if it is
    known."""

    rule: str
    code: str
    message: str
    hint: str
    position: Position | None = None


Check: TypeAlias = Callable[[TrialRule], Iterator[Doubt]]


def doubts(rules: Mapping[str, TrialRule], files: Mapping[str, Sequence[CaseFile]]) -> list[Doubt]:
    """Returns the doubts about rules with their cases, alone and beside each other, in the order of
    their names."""
    alone = [doubt for rule in rules.values() for check in CHECKS for doubt in check(rule)]
    found = [*alone, *_contained(rules), *_never_firing(files)]
    return sorted(found, key=lambda d: (d.rule, d.code, d.message))


def pattern_anywhere(rule: TrialRule) -> Iterator[Doubt]:
    """Doubts patterns of REGEXP that begin with `.*`: they are found anywhere anyway."""
    for call in _calls(rule):
        pattern = call.args[1] if call.function == "REGEXP" else None
        text = pattern.value if isinstance(pattern, Literal) else None
        if isinstance(text, str) and text.startswith(".*"):
            found = f"the pattern '{text}' begins with '.*'"
            hint = f"write '{text.removeprefix('.*')}': a pattern is found anywhere"
            yield Doubt(rule.name, "pattern-anywhere", found, hint, call.position)


def long_list(rule: TrialRule) -> Iterator[Doubt]:
    """Doubts an OR, or a list, of a thousand values and more."""
    for call in _calls(rule):
        number = len(call.args) - (call.function == "IN")
        if call.function in ("OR", "IN") and number >= _MANY:
            yield Doubt(
                rule.name,
                "long-list",
                f"{number:,} values stand in one {call.function}",
                "keep them in a table and look them up: JOIN … FOR SYSTEM_TIME AS OF",
                call.position,
            )


def unbounded_state(rule: TrialRule) -> Iterator[Doubt]:
    """Doubts operators that keep rows, or keys, for ever."""
    kept = {
        Join: "a join keeps all rows of both sides for ever",
        GroupAggregate: "GROUP BY keeps all its groups for ever",
        Rank: "a row number keeps all its groups for ever",
        NewTerm: "NEW_TERM remembers all values for ever",
    }
    for node in _nodes(rule):
        found = next((text for kind, text in kept.items() if isinstance(node, kind)), None)
        if found is not None and isinstance(node, Stateful) and not _is_bounded(node):
            yield Doubt(rule.name, "unbounded-state", found, _bound_of(node))


def cross_join(rule: TrialRule) -> Iterator[Doubt]:
    """Doubts joins that compare each row with each."""
    for node in _nodes(rule):
        if isinstance(node, Join) and not node.keys(0):
            yield Doubt(
                rule.name,
                "cross-join",
                "a join compares each row of one side with each of the other",
                "add an equality, as in ON a.host = b.host",
            )


def costly(rule: TrialRule) -> Iterator[Doubt]:
    """Doubts filters that compute with each row what takes long, since nothing in them is a
    condition that an index finds rows by."""
    for node in _nodes(rule):
        if isinstance(node, Filter) and isinstance(to_rule(node.predicate).condition, Constant):
            dear = next((c for c in walk(node.predicate) if _is_dear(c)), None)
            if isinstance(dear, Call):
                yield Doubt(
                    rule.name,
                    "costly",
                    f"{dear.function} is computed for each row",
                    "add a condition beside it that leaves few rows, as LIKE or = of a column",
                    dear.position,
                )


def _is_dear(expression: Scalar) -> bool:
    return isinstance(expression, Call) and expression.function.startswith(_DEAR)


CHECKS: Final[Sequence[Check]] = (
    pattern_anywhere,
    long_list,
    unbounded_state,
    cross_join,
    costly,
)


def _is_bounded(node: Stateful) -> bool:
    if isinstance(node, WindowRank):  # forgotten with its window
        return True
    if isinstance(node, NewTerm):
        return bool(node.memory_ms)
    if isinstance(node, Join):
        return all(node.ttl_of(port) for port in (0, 1))
    return bool(node.ttl_ms)


def _bound_of(node: LogicalPlan) -> str:
    if isinstance(node, Join):
        return f"bound it by time, as in b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR; or {_TTL}"
    if isinstance(node, NewTerm):
        return "give it a memory, as in NEW_TERM(user, country, INTERVAL '30' DAY)"
    return f"group by a window (TUMBLE, HOP, CUMULATE); or {_TTL}"


def _contained(rules: Mapping[str, TrialRule]) -> Iterator[Doubt]:
    """Doubts filters whose rows another rule finds as well: it asks for a part of their
    conditions, of the same rows."""
    asked: dict[str, list[tuple[frozenset[str], str]]] = {}
    for rule in rules.values():
        for node in _finding(rule):
            conditions = frozenset(c.digest for c in conjuncts_of(node.predicate))
            asked.setdefault(node.input.digest, []).append((conditions, rule.name))
    for same in asked.values():
        for conditions, name in same:
            for fewer, other in same:
                if other != name and fewer < conditions:
                    found = f"all that it finds '{other}' finds, too"
                    hint = f"leave it out, or leave its rows out of '{other}'"
                    yield Doubt(name, "contained", found, hint)
                elif other < name and fewer == conditions:
                    found = f"it has the same conditions as '{other}'"
                    yield Doubt(name, "equal", found, "keep one of the two")


def _finding(rule: TrialRule) -> Iterator[Filter]:
    """Yields the filters whose rows are what the rule finds: no join, and nothing that keeps state,
    stands behind them."""
    waiting: list[LogicalPlan] = list(rule.sinks)
    while waiting:
        node = waiting.pop()
        if isinstance(node, Filter):
            yield node
        if not isinstance(node, Stateful | BinaryJoin):
            waiting += node.inputs


def _never_firing(files: Mapping[str, Sequence[CaseFile]]) -> Iterator[Doubt]:
    """Doubts rules that fire in none of their cases."""
    for name, found in files.items():
        cases = [case for file in found for case in file.cases]
        if cases and not any(_expects(case.alerts) for case in cases):
            hint = "add one with an event that it is made for"
            yield Doubt(name, "never-fires", "none of its cases expects an alert", hint)


def _expects(alerts: Expected) -> bool:
    if isinstance(alerts, Mapping):
        return any(map(bool, alerts.values()))
    return bool(alerts)


def _nodes(rule: TrialRule) -> Iterator[LogicalPlan]:
    for sink in rule.sinks:
        yield from nodes(sink)


def _calls(rule: TrialRule) -> Iterator[Call]:
    """Yields all calls in the expressions of a rule's plans."""
    for node in _nodes(rule):
        waiting: list[Scalar] = list(node.expressions)
        while waiting:
            expression = waiting.pop()
            if isinstance(expression, Call):
                yield expression
                waiting += expression.args
