"""What it costs to shadow 100 of the 1,414 real rules.

Two engines take the same events in turns, so that both see the same moods of the machine: one with
all rules, one where 100 of them have a shadow, too. CPU seconds are of the whole process; the first
pass warms up and is not counted."""

from __future__ import annotations

from collections.abc import Mapping
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

SHADOWS, COPIES = 100, 6
_HEAD: Final = "-- @rule\n-- status: shadow\n"
_MORE: Final = " AND Image NOT LIKE '%\\\\benchmark.exe'"
# What the texts of the shadows say besides those of the live versions, and whether the same texts
# are live jobs in the engine beside it.
_KINDS: Final = {
    "equal to the live versions": ("", False),
    "with a condition more": (_MORE, False),
    "with a condition more, beside live jobs of these texts": (_MORE, True),
}


def run() -> Section:
    rows = [[name, *_measured(*kind)] for name, kind in _KINDS.items()]
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
        [
            "Conditions of another text cost what they do in a live job: the third row has the rest.",
        ],
    )


def _measured(more: str, live: bool) -> list[str]:
    """The rates, and what shadows add."""
    with sigma.engine() as plain, sigma.engine() as shadowed:
        operators = len(shadowed.graph.executor.running)
        _submit(shadowed, {r.job: _HEAD + _narrowed(r, more) for r in _chosen()})
        if live:
            _submit(plain, {f"{r.job}.next": _narrowed(r, more) for r in _chosen()})
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


def _chosen() -> list[Rule]:
    rules = sigma.all_rules()
    return rules[:: len(rules) // SHADOWS][:SHADOWS]


def _submit(engine: Engine, sql: Mapping[str, str]) -> None:
    texts = {name: JobText(name, text) for name, text in sql.items()}
    outcomes = engine.change(Request(Origin.SDK, texts)).values()
    refused = [o for o in outcomes if o.error is not None]
    if refused:
        raise RuntimeError(f"{len(refused)} texts were refused: {refused[0]}")


def _narrowed(rule: Rule, more: str) -> str:
    """The text of a rule with a condition more."""
    before, where, condition = rule.sql.partition(" WHERE ")
    return f"{before}{where}({condition}){more}" if more else rule.sql
