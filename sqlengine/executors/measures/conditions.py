"""Measures conditions of running jobs, one by one, over some of the rows that came last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter
from typing import Final

from parser.errors import SqlError
from planner.scalar import Call, Literal, Scalar, columns_of
from sqlengine.batch import Batch, replaced
from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.expressions import compile_expression, truth
from sqlengine.operators.rules import RulesOperator

_TIMES: Final = 3


@dataclass(frozen=True)
class ConditionCost:
    """A condition of a rule: the time that it takes alone for a row (µs), without what the set of
    rules saves, and the share of rows for which it is TRUE."""

    condition: str
    us_per_row: float
    true: float


def condition_costs(executor: EmbeddedExecutor, job: str) -> list[ConditionCost]:
    """Returns what the conditions of a job's filters cost, the slowest first; none before rows have
    come. Any thread."""
    found: dict[str, ConditionCost] = {}
    for operator in _rules(executor):
        sample = operator.sample
        if sample is None or not sample.num_rows:
            continue
        for rule in operator.compiled.plan.rules.values():
            for part in _parts(rule.predicate) if job in rule.owners else ():
                with suppress(SqlError):
                    found[str(part)] = _measured(part, sample)
    return sorted(found.values(), key=lambda c: -c.us_per_row)


def cached_shares(executor: EmbeddedExecutor) -> dict[str, float]:
    """Returns for each job the share of distinct values that caches knew, of those in the columns
    that its filters read; nothing for jobs for which none were asked for. Any thread."""
    asked, found = Counter[str](), Counter[str]()
    for operator in _rules(executor):
        for rule in operator.compiled.plan.rules.values():
            of_rule = operator.compiled.ruleset.cached(columns_of(rule.predicate))
            asked.update(dict.fromkeys(rule.owners, of_rule[0]))
            found.update(dict.fromkeys(rule.owners, of_rule[1]))
    return {job: found[job] / number for job, number in asked.items() if number}


def _rules(executor: EmbeddedExecutor) -> Iterator[RulesOperator]:
    for node in list(executor.running.values()):
        if isinstance(node.operator, RulesOperator):
            yield node.operator


def _measured(condition: Scalar, sample: Batch) -> ConditionCost:
    compute, seconds = compile_expression(condition), []
    for _ in range(_TIMES):
        rows = replaced(sample, memo={})  # nothing that another condition has computed
        began = perf_counter()
        true = truth(compute(rows), rows.num_rows)
        seconds.append(perf_counter() - began)
    us = 1e6 * min(seconds) / sample.num_rows
    return ConditionCost(str(condition), us, float(true.mean()))


def _parts(predicate: Scalar) -> Iterator[Scalar]:
    """Yields the conditions of which a predicate is made by AND, OR and NOT."""
    waiting = [predicate]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Call) and part.function in ("AND", "OR", "NOT"):
            waiting += part.args
        elif not isinstance(part, Literal):
            yield part
