"""The conditions that the rows of a scan must fulfil for any job: its source may leave out others.

A scan is one for all jobs that read its table, and stays that: these conditions are no part of it,
and follow from the plan anew at each change of jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import Final

from parser.types import BOOLEAN
from planner.analysis.totality import can_fail
from planner.graph.physical import PhysicalPlan
from planner.graph.rule_sets import RulesPlan
from planner.logical import AssignWatermark
from planner.rewrite import conjunction
from planner.scalar import Call, Scalar, conjuncts_of, is_deterministic, walk

# Sources look at every alternative: with many of these there is little that none wants.
MOST_ALTERNATIVES: Final = 32
_MOST_NODES: Final = 2_000


def scan_filters(plan: PhysicalPlan, scans: Iterable[str]) -> dict[str, Scalar]:
    """Returns, for each of these scans whose rows are all filtered, a condition that every row
    fulfils that leaves one of the filters, or fails in one.

    Not through a watermark, which rows that are not read would not move, unless it is that of batch
    mode, which comes at the end."""
    found = {name: _alternatives(plan, name) for name in scans}
    return {name: condition for name, condition in found.items() if condition is not None}


def _alternatives(plan: PhysicalPlan, scan: str) -> Scalar | None:
    wanted: dict[str, Scalar] = {}
    for predicate in _predicates(plan, scan):
        part = None if predicate is None else _certain(predicate)
        if part is None or len(wanted) > MOST_ALTERNATIVES:
            return None
        wanted[part.digest] = part
    if not wanted or sum(1 for c in wanted.values() for _ in walk(c)) > _MOST_NODES:
        return None
    parts = tuple(wanted[digest] for digest in sorted(wanted))
    return parts[0] if len(parts) == 1 else Call("OR", parts, BOOLEAN.with_nullable(True))


def _predicates(plan: PhysicalPlan, node: str) -> Iterator[Scalar | None]:
    """Yields the conditions of all filters over a node, and None for what reads it unfiltered."""
    for edge in plan.nodes[node].outgoing:
        target = plan.nodes.get(edge.target)
        if target is not None and isinstance(target.plan, RulesPlan):
            if len(target.plan.rules) > MOST_ALTERNATIVES:
                yield None
                return
            yield from (rule.predicate for rule in target.plan.rules.values())
        elif target is not None and isinstance(target.plan, AssignWatermark) and target.plan.at_end:
            yield from _predicates(plan, target.id)
        else:
            yield None


def _certain(predicate: Scalar) -> Scalar | None:
    """Returns the operands of a condition up to the first that can fail: where one of these is not
    TRUE, no other one is asked. None where there is none."""
    if not is_deterministic(predicate):
        return None
    parts = list(takewhile(lambda part: not can_fail(part), conjuncts_of(predicate)))
    return conjunction(parts) if parts else None
