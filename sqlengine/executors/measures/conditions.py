"""Measures conditions of running jobs, one by one, over some of the rows that came last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter, thread_time
from typing import Final

from parser.errors import SqlError
from planner.scalar import Call, Literal, Scalar, columns_of, walk
from sqlengine.batch import Batch, replaced
from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.expressions import compile_expression, truth
from sqlengine.operators.rules import RulesOperator
from udf.user import is_user

# So many conditions, the slowest ones, are measured so often again: something else may have been in
# the way.
_AGAIN: Final = 5
_TIMES: Final = 2


@dataclass(frozen=True)
class ConditionCost:
    """A condition of a rule: the time that it takes alone for a row (µs), without what the set of
    rules saves, and the share of rows for which it is TRUE."""

    condition: str
    us_per_row: float
    true: float


@dataclass(frozen=True)
class CacheUse:
    """The use of caches by the filters of a job: of the distinct values that came in the columns
    which these read, `asked` for so many were `found`."""

    asked: int = 0
    found: int = 0

    def plus(self, other: CacheUse) -> CacheUse:
        """Returns the use of two."""
        return CacheUse(self.asked + other.asked, self.found + other.found)

    @property
    def share(self) -> float | None:
        """The share that was found; None where nothing was asked for."""
        return self.found / self.asked if self.asked else None


def condition_costs(
    executor: EmbeddedExecutor, job: str, *, calling_users: bool = True
) -> list[ConditionCost]:
    """Returns what the conditions of a job's filters cost, the slowest first; none before rows have
    come. Those with functions of users only where these may be called. Any thread."""
    samples = {
        str(part): (part, sample)
        for part, sample in _sampled(executor, job)
        if calling_users or not _calls_users(part)
    }
    found: dict[str, ConditionCost] = {}
    for name, (part, sample) in samples.items():
        with suppress(SqlError):
            found[name] = _measured(part, sample)
    for cost in _slowest_first(found)[:_AGAIN]:
        again = [_measured(*samples[cost.condition]) for _ in range(_TIMES)]
        found[cost.condition] = min(cost, *again, key=lambda c: c.us_per_row)
    return _slowest_first(found)


def _sampled(executor: EmbeddedExecutor, job: str) -> Iterator[tuple[Scalar, Batch]]:
    """Yields the conditions of a job's filters, each with some of the rows that came last."""
    for operator in _rules(executor):
        sample = operator.sample
        if sample is not None and sample.num_rows:
            for rule in operator.compiled.plan.rules.values():
                for part in _parts(rule.predicate) if job in rule.owners else ():
                    yield part, sample


def _slowest_first(found: Mapping[str, ConditionCost]) -> list[ConditionCost]:
    return sorted(found.values(), key=lambda c: -c.us_per_row)


def cache_uses(executor: EmbeddedExecutor) -> dict[str, CacheUse]:
    """Returns how each job that has filters uses caches. Any thread."""
    uses: dict[str, CacheUse] = {}
    for operator in _rules(executor):
        ruleset, of_fields = operator.compiled.ruleset, dict[str, CacheUse]()
        for rule in operator.compiled.plan.rules.values():
            of_rule = CacheUse()
            for name in columns_of(rule.predicate):
                if name not in of_fields:
                    of_fields[name] = CacheUse(*ruleset.cached((name,)))
                of_rule = of_rule.plus(of_fields[name])
            for job in rule.owners:
                uses[job] = uses.get(job, CacheUse()).plus(of_rule)
    return uses


def _rules(executor: EmbeddedExecutor) -> Iterator[RulesOperator]:
    for node in list(executor.running.values()):
        if isinstance(node.operator, RulesOperator):
            yield node.operator


def _measured(condition: Scalar, sample: Batch) -> ConditionCost:
    # Of the CPU, as others are at work beside; functions of users run in other processes.
    clock = perf_counter if _calls_users(condition) else thread_time
    compute = compile_expression(condition)
    rows = replaced(sample, memo={})  # nothing that another condition has computed
    began = clock()
    true = truth(compute(rows), rows.num_rows)
    us_per_row = 1e6 * (clock() - began) / sample.num_rows
    return ConditionCost(str(condition), us_per_row, float(true.mean()))


def _calls_users(condition: Scalar) -> bool:
    return any(isinstance(part, Call) and is_user(part.function) for part in walk(condition))


def _parts(predicate: Scalar) -> Iterator[Scalar]:
    """Yields the conditions of which a predicate is made by AND, OR and NOT."""
    waiting = [predicate]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Call) and part.function in ("AND", "OR", "NOT"):
            waiting += part.args
        elif not isinstance(part, Literal):
            yield part
