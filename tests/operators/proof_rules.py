"""The merged filters of a few jobs as one operator: plan and expected output, computed in
Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal

from parser.types import BOOLEAN, INT, STRING, decimal
from planner.graph.rule_sets import PlannedRule, Route, RulesPlan
from planner.scalar import Call, ColumnRef, Literal, Scalar
from rules.ruleset import RuleSet
from sqlengine.operators.base import Operator
from sqlengine.operators.rules import RulesOperator, compile_rules
from tests.operators.proof import Chunk, Row, scanned

_COLUMNS: Mapping[str, Scalar] = {
    "k": ColumnRef("k", STRING),
    "i": ColumnRef("i", INT),
    "m": ColumnRef("m", decimal(10, 2)),
}


def _call(function: str, *args: Scalar | str | int) -> Call:
    return Call(function, tuple(_scalar(a) for a in args), BOOLEAN)


def _scalar(argument: Scalar | str | int) -> Scalar:
    if isinstance(argument, str):
        return _COLUMNS.get(argument) or Literal(argument.strip("'"), STRING)
    return Literal(argument, INT) if isinstance(argument, int) else argument


# rule -> its predicate, the same in Python, and the target of its rows
_RULES: Mapping[str, tuple[Call, Callable[[str | None, int | None], bool], str]] = {
    "high": (
        _call("AND", _call("=", "k", "'a'"), _call(">", "i", 10)),
        lambda k, i: k == "a" and (i or 0) > 10,
        "t0",
    ),
    "like": (
        _call("OR", _call("LIKE", "k", "'%b%'"), _call("<", "i", -40)),
        lambda k, i: k == "b" or (i or 0) < -40,
        "t0",
    ),
    "not": (_call("NOT", _call("=", "k", "'c'")), lambda k, i: k not in (None, "c"), "t1"),
    "null": (_call("IS NULL", "k"), lambda k, i: k is None, "t1"),
}
TARGETS = ("t0", "t1")


def rules_plan() -> RulesPlan:
    items = [("k", _COLUMNS["k"]), ("i", _COLUMNS["i"]), ("m", _COLUMNS["m"])]
    rules = {}
    for number, (name, (predicate, _, target)) in enumerate(_RULES.items()):
        route = Route(f"job-{number}", 0, name, (("rule", Literal(name, STRING)), *items), target)
        rules[name] = PlannedRule(predicate, frozenset({route.job}), (route,))
    return RulesPlan().changed(rules)


def rules() -> list[Operator]:
    """The filters of all jobs, over decoded rows."""
    return [RulesOperator(compile_rules(rules_plan(), RuleSet.empty()))]


def scanned_rules() -> list[Operator]:
    """From records on."""
    return [scanned()[0], *rules()]


Alert = tuple[str, str | None, int | None, Decimal | None]


def alerts(chunks: Iterable[Chunk]) -> dict[int, list[Alert]]:
    """Rows by output port, in order of the rows that caused them."""
    result: dict[int, list[Alert]] = {0: [], 1: []}
    for row in (r for c in chunks for r in c.rows):
        for port, alert in _alerts(row):
            result[port].append(alert)
    return result


def _alerts(row: Row) -> Sequence[tuple[int, Alert]]:
    return [
        (TARGETS.index(target), (name, *row[1:]))
        for name, (_, matches, target) in _RULES.items()
        if matches(row[1], row[2])
    ]
