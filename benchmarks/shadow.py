"""What it costs to shadow 100 of the 1,414 real rules.

Two engines take the same events in turns, so that both see the same moods of the machine: one with
all rules, one where 100 of them have a shadow, too. CPU seconds are of the whole process; the first
pass warms up and is not counted."""

from __future__ import annotations

from statistics import median
from typing import Final

from benchmarks import sigma
from benchmarks.page import Section, Table
from benchmarks.rules_real import one_pass
from sqlengine.engine import Engine
from sqlengine.engine.requests import Request
from sqlengine.jobs.job import Origin
from sqlengine.jobs.planning import JobText
from tests.conformance.sigma import Rule

SHADOWS, COPIES = 100, 8
_HEAD: Final = "-- @rule\n-- status: shadow\n"
# What the texts of the shadows say besides those of the live versions.
_KINDS: Final = {
    "equal to the live version": "",
    "with a condition more": " AND Image NOT LIKE '%\\\\benchmark.exe'",
    "x": " AND ProcessId > 0",
}


def run() -> Section:
    rows = [[name, *_measured(more)] for name, more in _KINDS.items()]
    columns = [
        "100 shadows",
        "events per CPU second without",
        "with",
        "CPU more",
        "rows of shadows a pass",
        "operators more",
    ]
    return Section(
        "shadow",
        "Shadows beside real rules",
        f"{SHADOWS} of the {len(sigma.all_rules()):,} real rules of `rules_real`, evenly chosen, have"
        f" a shadow: their rows and those of the live versions go to topics of the system.",
        [Table("Cost", columns, rows)],
    )


def _measured(more: str) -> list[str]:
    """The rates, and what shadows add."""
    with sigma.engine() as plain, sigma.engine() as shadowed:
        operators = len(shadowed.graph.executor.running)
        _shadow(shadowed, more)
        added = len(shadowed.graph.executor.running) - operators
        engines = (plain, shadowed)
        costs: tuple[list[float], list[float]] = ([], [])
        for copy in range(COPIES + 1):
            # Each goes first in turn: the second finds the data of the machine's caches.
            order = (0, 1) if copy % 2 else (1, 0)
            for n in order:
                events, cpu = one_pass(engines[n], [copy])
                costs[n].append(cpu / events)
        rows = shadowed.broker.end_offset("_shadow", 0) / (COPIES + 1)
    without, with_them = (median(cost[1:]) for cost in costs)
    share = median(b / a for a, b in zip(costs[0][1:], costs[1][1:], strict=True)) - 1
    return [
        f"{1 / without:,.0f}",
        f"{1 / with_them:,.0f}",
        f"{share:.1%}",
        f"{rows:,.0f}",
        f"{added:,}",
    ]


def _shadow(engine: Engine, more: str) -> None:
    rules = sigma.all_rules()
    chosen = rules[:: len(rules) // SHADOWS][:SHADOWS]
    texts = {r.job: JobText(r.job, _HEAD + _narrowed(r, more)) for r in chosen}
    outcomes = engine.change(Request(Origin.SDK, texts)).values()
    refused = [o for o in outcomes if o.status != "shadowed"]
    if refused:
        raise RuntimeError(f"{len(refused)} shadows were refused: {refused[0]}")


def _narrowed(rule: Rule, more: str) -> str:
    """The text of a rule with a condition more."""
    before, where, condition = rule.sql.partition(" WHERE ")
    return f"{before}{where}({condition}){more}" if more else rule.sql
