"""A plan that followed the graph through random changes is the plan made at once of where they
ended: the same operators and, run over the same rows, the same lines in the same order. And a
change of one rule touches what belongs to it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from planner.graph.chunked import Chunked
from planner.graph.merge import Graph, merge
from planner.graph.physical import PhysicalNode, PhysicalPlan, lower
from planner.graph.rule_sets import RulesPlan
from planner.logical import Sink
from rules.options import Options
from rules.ruleset import RuleSet
from sqlengine.connectors.environment import Environment
from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.executors.runner import GraphRunner
from sqlengine.executors.storage import RunnerOptions
from sqlengine.operators.rules import compile_rules
from tests.properties.queries import World, any_query, views

# Few jobs, tables and (by their indices) queries, so that changes meet: job, and what it writes
# where.
CHANGES = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1)), max_size=2),
    ),
    min_size=1,
    max_size=10,
)
QUERIES = st.lists(any_query, min_size=4, max_size=4)
Change = tuple[str, list[tuple[int, int]]]


@given(QUERIES, views, CHANGES)
@settings(max_examples=20, deadline=None)
def test_step_by_step_and_at_once_are_the_same_plan(
    queries: list[str], view: str, changes: list[Change]
) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        world = World(Path(scratch), view)
        graph, plan = Graph(), PhysicalPlan()
        for job, writes in changes:
            graph = merge(graph, {job: sinks(world, job, writes, queries)})
            plan = lower(graph, plan)
            assert form(plan) == form(lower(graph))


@given(QUERIES, views, CHANGES, st.sampled_from([1, 4096]))
@settings(max_examples=12, deadline=None)
def test_step_by_step_and_at_once_write_the_same_rows(
    queries: list[str], view: str, changes: list[Change], rows_per_read: int
) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        world = World(Path(scratch), view)
        changed, at_once = runner(rows_per_read), runner(rows_per_read)
        for job, writes in changes:
            made = sinks(world, job, writes, queries)
            changed.apply(
                changed.prepare(merge(changed.graph, {job: made}), {job: int(made is not None)})
            )
        found = lines(world, changed)
        at_once.apply(at_once.prepare(changed.graph, changed.jobs))
        assert found == lines(world, at_once)


@given(
    st.lists(st.tuples(st.text(max_size=2), st.integers(0, 3) | st.none()), max_size=60),
    st.integers(0, 60),
)
@settings(deadline=None)
def test_chunked_is_a_dictionary_that_is_a_value(
    changes: list[tuple[str, int | None]], half: int
) -> None:
    model: dict[str, int] = {}
    versions = [(Chunked[int](), dict(model))]
    for key, value in changes:
        if value is None:
            model.pop(key, None)
        else:
            model[key] = value
        put = {} if value is None else {key: value}
        versions.append((versions[-1][0].changed(put, [key] if value is None else []), dict(model)))
    assert all(
        dict(chunked) == expected and len(chunked) == len(expected)
        for chunked, expected in versions
    )
    (old, before), (new, after) = versions[min(half, len(versions) - 1)], versions[-1]
    keys = {k for k in before.keys() | after.keys() if before.get(k) != after.get(k)}
    assert new.difference(old) == old.difference(new) == keys
    assert (old == new) == (before == after)


def test_a_change_costs_what_it_changes() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        world = World(Path(scratch))
        jobs = {
            f"job{i}": [world.sink(f"SELECT {i}, b, s, d, bo FROM t WHERE a > {i}", 0, "o")]
            for i in range(100)
        }
        jobs = {job: [replace(sink, job=job) for sink in made] for job, made in jobs.items()}
        before = merge(Graph(), jobs)
        other = replace(
            world.sink("SELECT 7, b, s, d, bo FROM t WHERE s LIKE '%b%'", 0, "o"), job="job7"
        )
        after = merge(before, {"job7": [other]})
        old = lower(before)
        new = lower(after, old)
    assert old.derived == 302  # 100 filters, projections and sinks, the scan and its watermark
    assert new.derived == 8
    compiled = compile_rules(rules_of(old), RuleSet.empty())
    changed = compile_rules(rules_of(new), RuleSet.empty(), compiled)
    assert (compiled.compiled, changed.compiled) == (100, 1)
    assert len(changed.rules.difference(compiled.rules)) == 2
    assert changed.ruleset.counters.parts_compiled == 2


def sinks(
    world: World, job: str, writes: list[tuple[int, int]], queries: Sequence[str]
) -> list[Sink] | None:
    """The job's plans; None when it writes nothing, and so goes."""
    made = [world.sink(queries[query], table, "out") for query, table in writes]
    return [replace(sink, job=job, place=place) for place, sink in enumerate(made)] or None


def runner(rows_per_read: int) -> GraphRunner:
    executor, environment = (
        EmbeddedExecutor(OperatorFactory(Options())),
        Environment(None, lambda: 0, "graph"),
    )
    return GraphRunner(
        "graph",
        executor,
        environment,
        options=RunnerOptions(lambda owner: False, rows_per_read),
    )


def lines(world: World, made: GraphRunner) -> list[list[str]]:
    """What the tables hold after a run; they are empty again."""
    try:
        while made.step():
            pass
    finally:
        made.close()
    found = [world.written("out", table) for table in (0, 1)]
    shutil.rmtree(world.folder / "out", ignore_errors=True)
    return found


def rules_of(plan: PhysicalPlan) -> RulesPlan:
    (rules,) = (n.plan for n in plan.nodes.values() if isinstance(n.plan, RulesPlan))
    return rules


def form(plan: PhysicalPlan) -> object:
    """All of a plan but the numbers of ports, which are in the order in which targets came."""
    nodes = {
        node.id: (
            node.columns,
            node.jobs,
            node.rank,
            rules_form(node.plan) if isinstance(node.plan, RulesPlan) else None,
        )
        for node in plan.in_order
    }
    edges = {node.id: edges_form(node) for node in plan.in_order}
    sinks = {name: dict(sink.writers) for name, sink in plan.sinks.items()}
    return (
        plan.version,
        nodes,
        edges,
        sinks,
        {name: dict(reads) for name, reads in plan.reads.items() if reads},
    )


def rules_form(plan: RulesPlan) -> object:
    return (
        dict(plan.rules),
        {name: t.routes for name, t in plan.targets.items()},
        plan.onward.keys(),
    )


def edges_form(node: PhysicalNode) -> object:
    """Edges by what leaves by the port."""
    if not isinstance(node.plan, RulesPlan):
        return dict(node.edges)
    names: dict[int, str] = {t.port: name for name, t in node.plan.targets.items()}
    names |= {port: name for name, port in node.plan.onward.items()}
    return {names[port]: edges for port, edges in node.edges.items()}
