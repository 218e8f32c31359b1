"""EXPLAIN: the plan after every arrow, and what of it is shared with whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from planner.explain import explain, explain_json, steps
from planner.graph.cut import Stage, cut
from planner.graph.merge import Graph, merge
from planner.graph.physical import PhysicalPlan, lower
from planner.graph.rule_sets import RulesPlan
from planner.graph.two_phases import split_aggregates
from planner.logical import LogicalPlan, Sink
from planner.optimizer import optimize
from planner.scalar import Call, walk
from sqlengine.jobs.deliveries import deliveries_of
from sqlengine.jobs.side_outputs import with_late_rows
from udf.user import is_user

_LOGGED = (
    "what {} gives is written down with each epoch, since it is not deterministic: after a crash it"
    " is the same"
)
_VARYING = "rows that come again may have other values of {}, which is not deterministic"
_READ_AGAIN = (
    "after a crash, rows since the last checkpoint are processed again (sql serve --delivery"
    " at-least-once)"
)
_PHASES = (
    "a part before the exchange and the rest behind it ('table.optimizer.agg-phase-strategy');"
    " where everything runs in\none process nothing is exchanged, and these are aggregates in one"
    " phase:"
)
# JSON as json.dumps takes it.
Json: TypeAlias = dict[str, object]


def explain_sinks(
    plans: Sequence[LogicalPlan],
    disabled: frozenset[str],
    graph: Graph | None = None,
    job: str = "",
    settings: Mapping[str, str] | None = None,
    *,
    once: bool = True,
) -> str:
    """All steps as text: after binding, after each pass that changed something, merged, cut, what
    each sink guarantees, and what runs; and why rows may come a second time, where the server does
    not deliver them `once`."""
    parts = []
    for plan in plans:
        parts += [
            f"== {name} ==\n{explain(after)}" for name, after in steps(plan, disabled=disabled)
        ]
    merged = merged_with(plans, disabled, graph, job, settings)
    parts.append(
        f"== merged into the graph, version {merged.version} ==\n{_graph_text(merged, job)}"
    )
    parts.append("== stages ==\n" + "\n".join(_stage_text(s) for s in cut(merged)))
    if deliveries := deliveries_of(plans):
        parts.append("== sinks ==\n" + "\n".join(map(str, deliveries)))
    parts.append("== operators ==\n" + _physical_text(lower(merged), job))
    two = {str(n.label): None for p in plans for n in split_aggregates(p, settings or {})}
    if two:
        parts.append(
            f"== in two phases, on Spark and in parts ==\n{_PHASES}\n"
            + "\n".join(f"GroupAggregate {n}" for n in two)
        )
    varying = varying_functions(plans)
    if varying and once:
        parts.append(f"== values that are kept ==\n{_LOGGED.format(', '.join(varying))}")
    if not once:
        reasons = [_READ_AGAIN, *([_VARYING.format(", ".join(varying))] if varying else [])]
        parts.append("== at least once ==\n" + "\n".join(reasons))
    return "\n\n".join(parts)


def explain_sinks_json(
    plans: Sequence[LogicalPlan],
    disabled: frozenset[str],
    graph: Graph | None = None,
    job: str = "",
    settings: Mapping[str, str] | None = None,
) -> Json:
    """The same for programs."""
    merged = merged_with(plans, disabled, graph, job, settings)
    mine = [merged.nodes[i] for i in merged.jobs.get(job, ())]
    deliveries = deliveries_of(plans)
    return {
        "sinks": [d.as_json() for d in deliveries],
        "at_least_once": [d.table.display for d in deliveries if d.at_least_once],
        "kept_values_of": varying_functions(plans),
        "steps": [
            [
                {"step": name, "plan": explain_json(after)}
                for name, after in steps(plan, disabled=disabled)
            ]
            for plan in plans
        ],
        "graph": [
            {
                "id": n.id,
                "operation": type(n.plan).__name__,
                "label": n.plan.label,
                "inputs": list(n.inputs),
                "shared_with": sorted(n.jobs - {job}),
            }
            for n in mine
        ],
        "stages": [
            {
                "id": s.id,
                "nodes": list(s.nodes),
                "exchange": list(s.exchange) if s.exchange is not None else None,
            }
            for s in cut(merged)
            if any(merged.nodes[i] in mine for i in s.nodes)
        ],
    }


def varying_functions(plans: Sequence[LogicalPlan]) -> list[str]:
    """The users' functions ('module.name') in these plans that may give another value when a row is
    computed again."""
    found, stack = set[str](), list(plans)
    while stack:
        node = stack.pop()
        stack.extend(node.inputs)
        for expression in node.expressions:
            varying = [
                n
                for n in walk(expression)
                if isinstance(n, Call) and is_user(n.function) and not n.deterministic
            ]
            # A call is not deterministic also because of one below it: that one is to be named.
            found.update(
                c.function.partition("@")[0]
                for c in varying
                if not any(c is not n for n in _within(c, varying))
            )
    return sorted(found)


def _within(call: Call, calls: list[Call]) -> list[Call]:
    below = [n for n in walk(call) if isinstance(n, Call)]
    return [c for c in calls if any(c is n for n in below)]


def merged_with(
    plans: Sequence[LogicalPlan],
    disabled: frozenset[str],
    graph: Graph | None,
    job: str,
    settings: Mapping[str, str] | None = None,
) -> Graph:
    """The graph as it would be with these plans as the job."""
    sinks = []
    for place, plan in enumerate(plans):
        optimised = optimize(plan, disabled=disabled)
        assert isinstance(optimised, Sink)
        sinks.append(replace(optimised, job=job, place=place))
    return merge(graph or Graph(), {job: with_late_rows(sinks, settings or {})})


def _graph_text(graph: Graph, job: str) -> str:
    lines = []
    for name in graph.jobs[job]:
        node = graph.nodes[name]
        others = sorted(node.jobs - {job})
        shared = ""
        if others:
            shown = ", ".join(others[:3]) + (
                f" and {len(others) - 3} more" if len(others) > 3 else ""
            )
            shared = f"  [shared with {shown}]"
        lines.append(f"{name[:8]} {type(node.plan).__name__} {node.plan.label}".rstrip() + shared)
    return "\n".join(lines)


def _stage_text(stage: Stage) -> str:
    exchange = (
        ""
        if stage.exchange is None
        else f" by ({', '.join(stage.exchange) or 'nothing: bucket 0'})"
    )
    return f"stage {stage.id}{exchange}: {', '.join(n[:8] for n in stage.nodes)}"


def _physical_text(plan: PhysicalPlan, job: str) -> str:
    lines = []
    for node in plan.in_order:
        if job not in node.jobs:
            continue
        what = (
            f"Rules: {len(node.plan.rules)} filters, {_routes(node.plan)} routes to sinks"
            if isinstance(node.plan, RulesPlan)
            else f"{type(node.plan).__name__} {node.plan.label}".rstrip()
        )
        lines.append(f"{what}  -> {', '.join(node.columns)}")
    return "\n".join(lines)


def _routes(plan: RulesPlan) -> int:
    return sum(target.routes for target in plan.targets.values())
