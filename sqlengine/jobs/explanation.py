"""EXPLAIN: the plan after every arrow, and the jobs with which it is shared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from msgspec import to_builtins

from planner.explain import explain, explain_json
from planner.graph.families import ALONE, FamilyPlan
from planner.graph.family_members import FAMILY
from planner.graph.merge import Graph, merge
from planner.graph.physical import PhysicalPlan, lower
from planner.graph.rule_sets import RulesPlan
from planner.graph.scan_filters import scan_filters
from planner.graph.two_phases import split_aggregates
from planner.logical import LogicalPlan, Scan, Sink
from planner.plan import Trace
from planner.rewrite import nodes
from planner.scalar import Call, Scalar, walk
from planner.settings import AGG_PHASES, AGG_STRATEGIES, FILTER_PUSH_DOWN, flag, one_of
from planner.wording import named
from sqlengine.connectors.registry import capabilities_of
from sqlengine.executors.spark.explain import StageView, stages_of, stages_text
from sqlengine.executors.spark.local_phases import with_local_phases
from sqlengine.executors.spark.plan import cut_plan
from sqlengine.jobs.deliveries import deliveries_of
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
    sinks: Sequence[Sink],
    traces: Sequence[Trace],
    graph: Graph | None = None,
    job: str = "",
    settings: Mapping[str, str] | None = None,
    *,
    once: bool = True,
    stages: Sequence[StageView] = (),
    families: FamilyPlan = ALONE,
) -> str:
    """The plan as text after every arrow: bound, after each step and pass that changed it, merged
    into `graph`, with the guarantee of each sink, and as operators that run, on Spark in these
    `stages`, or in `families`; then why rows may be processed twice, where the server does not
    deliver them `once`."""
    merged = merge(graph or Graph(), {job: sinks})
    sections = [f"== {name} ==\n{explain(plan)}" for trace in traces for name, plan in trace.steps]
    sections += [f"== the rule in plain SQL ==\n{t.plain};" for t in traces if t.plain]
    sections.append(
        f"== merged into the graph, version {merged.version} ==\n{_graph_text(merged, job)}"
    )
    if deliveries := deliveries_of(sinks, once=once):
        sections.append("== sinks ==\n" + "\n".join(map(str, deliveries)))
    told = flag(settings or {}, FILTER_PUSH_DOWN, default=True)
    sections.append("== operators ==\n" + _physical_text(lower(merged), job, filters=told))
    if together := _family_text(merged, job, families):
        sections.append("== in families, with equal operations of other jobs ==\n" + together)
    if stages:  # they say which aggregates have two phases
        sections.append("== stages on Spark ==\n" + stages_text(stages))
    else:
        sections += _phases(sinks, settings or {})
    return "\n\n".join([*sections, *_values(sinks, once=once)])


def _phases(sinks: Sequence[Sink], settings: Mapping[str, str]) -> Iterator[str]:
    """Yields a section on the aggregates that have two phases where rows are exchanged."""
    labels = dict.fromkeys(n.label for s in sinks for n in split_aggregates(s, settings))
    if labels:
        lines = "\n".join(f"GroupAggregate {label}" for label in labels)
        yield f"== in two phases, on Spark and in parts ==\n{_PHASES}\n{lines}"


def _values(sinks: Sequence[Sink], *, once: bool) -> Iterator[str]:
    """Yields sections on values that are logged, or that may vary after a crash."""
    varying = ", ".join(varying_functions(sinks))
    if varying and once:
        yield f"== values that are kept ==\n{_LOGGED.format(varying)}"
    if not once:
        reasons = [_READ_AGAIN, *([_VARYING.format(varying)] if varying else [])]
        yield "== at least once ==\n" + "\n".join(reasons)


def stages_on_spark(sinks: Sequence[Sink], settings: Mapping[str, str]) -> list[StageView]:
    """Returns the stages in which statements would run on Spark by themselves."""
    strategy = one_of(settings, AGG_PHASES, AGG_STRATEGIES)
    plan = with_local_phases(lower(merge(Graph(), {"": sinks})), strategy)
    return stages_of(plan, cut_plan(plan))


def explain_sinks_json(
    sinks: Sequence[Sink],
    traces: Sequence[Trace],
    graph: Graph | None = None,
    job: str = "",
    stages: Sequence[StageView] = (),
    families: FamilyPlan = ALONE,
) -> Json:
    """The arrows of `explain_sinks` as JSON."""
    merged = merge(graph or Graph(), {job: sinks})
    nodes = (merged.nodes[i] for i in merged.jobs.get(job, ()))
    deliveries = deliveries_of(sinks)
    return {
        "sinks": [d.as_json() for d in deliveries],
        "at_least_once": [d.table.display for d in deliveries if d.at_least_once],
        "kept_values_of": varying_functions(sinks),
        "steps": [
            [{"step": name, "plan": explain_json(plan)} for name, plan in trace.steps]
            for trace in traces
        ],
        "plain_sql": [trace.plain for trace in traces if trace.plain],
        "graph": [
            {
                "id": n.id,
                "operation": type(n.plan).__name__,
                "label": n.plan.label,
                "inputs": list(n.inputs),
                "shared_with": sorted(n.jobs - {job}),
                "family": size_of_family(families, n.id),
            }
            for n in nodes
        ],
        "stages": to_builtins(stages),
    }


def varying_functions(plans: Sequence[LogicalPlan]) -> list[str]:
    """The users' functions ('module.name') in these plans that may return another value when a row
    is processed again."""
    expressions = (e for plan in plans for node in nodes(plan) for e in node.expressions)
    return sorted({name for expression in expressions for name in _varying(expression)})


def _varying(expression: Scalar) -> Iterator[str]:
    calls = [n for n in walk(expression) if isinstance(n, Call) and is_user(n.function)]
    varying = [c for c in calls if not c.deterministic]
    for call in varying:
        # A call with a nondeterministic argument is so, too; the innermost one is the cause.
        below = {id(n) for argument in call.args for n in walk(argument)}
        if not any(id(other) in below for other in varying):
            yield call.function.partition("@")[0]


def _graph_text(graph: Graph, job: str) -> str:
    """A line for each node of a job: the start of its id, its operation, and who else uses it."""
    lines = []
    for name in graph.jobs[job]:
        node = graph.nodes[name]
        line = f"{name[:8]} {type(node.plan).__name__} {node.plan.label}".rstrip()
        others = sorted(node.jobs - {job})
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        lines.append(f"{line}  [shared with {', '.join(others[:3])}{more}]" if others else line)
    return "\n".join(lines)


def size_of_family(families: FamilyPlan, node: str) -> int:
    """Returns the number of members of the family in which a node keeps its state; 0 for none."""
    known = families.member_of.get(node)
    return 0 if known is None else len(known[0].members)


def _family_text(graph: Graph, job: str, families: FamilyPlan) -> str:
    """A line for each operation of a job whose state is in that of a family, with the name of that,
    by which `sql jobs --output json` finds the others."""
    found = ((name, families.member_of.get(name)) for name in graph.jobs[job])
    return "\n".join(
        f"{name[:8]} {named(graph.nodes[name].plan)}  [family of {len(seat.family.members)}:"
        f" {seat.family.id.removeprefix(FAMILY)[:8]}]"
        for name, seat in found
        if seat is not None
    )


def _physical_text(plan: PhysicalPlan, job: str, *, filters: bool) -> str:
    """A line for each operator of a job, with the columns that are read of it; with `filters`, of
    scans also what their sources are told of the rows that all jobs want."""
    lines = []
    told = scan_filters(plan, _filtering(plan, job)) if filters else {}
    for node in plan.in_order:
        if job not in node.jobs:
            continue
        what = (
            f"Rules: {len(node.plan.rules)} filters, {_routes(node.plan)} routes to sinks"
            if isinstance(node.plan, RulesPlan)
            else f"{type(node.plan).__name__} {node.plan.label}".rstrip()
        )
        where = f"  [reads parts where {told[node.id]}]" if node.id in told else ""
        lines.append(f"{what}{where}  -> {', '.join(node.columns)}")
    return "\n".join(lines)


def _filtering(plan: PhysicalPlan, job: str) -> Iterator[str]:
    """Yields the scans of a job whose sources can leave out rows that nobody wants."""
    for node in plan.nodes.values():
        if isinstance(node.plan, Scan) and job in node.jobs:
            source = capabilities_of(node.plan.table).source
            if source is not None and source.filter_push_down:
                yield node.id


def _routes(plan: RulesPlan) -> int:
    return sum(target.routes for target in plan.targets.values())
