"""The tables of operators are on disk: a change of them raises `LAYOUT`, so that older state is
rejected, never misread."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.catalog import Catalog
from planner.graph.merge import Graph, merge
from planner.graph.physical import lower
from planner.graph.rule_sets import RulesPlan
from sqlengine.executors.build import OperatorFactory
from sqlengine.jobs.planning import JobText, plan_job
from sqlengine.snapshots.checkpoints import LAYOUT
from sqlengine.snapshots.layouts import layouts_of

HERE = Path(__file__).parent
RECORDED = HERE / "layouts.txt"


def layouts() -> str:
    """The layout of all tables of the statements in `layouts.sql`."""
    tables, _, queries = (HERE / "layouts.sql").read_text().partition("\n\n")
    lines = [f"layout {LAYOUT}"]
    for query in queries.strip().split(";\n"):
        query = query.rstrip(";\n ")
        view = f"CREATE TEMPORARY VIEW v AS {query}"
        text = (
            f"{tables}\n{view};\nCREATE TABLE sink WITH ('connector' = 'blackhole') AS SELECT *"
            " FROM v"
        )
        graph = merge(Graph(), {"j": plan_job(JobText("j", text), Catalog(), {}).sinks})
        lines += ["", query]
        for node in lower(graph).in_order:
            if not isinstance(node.plan, RulesPlan):
                found = layouts_of(node, OperatorFactory())
                lines += (
                    [f"  {type(node.plan).__name__} {node.plan.label}".rstrip()] if found else []
                )
                lines += [f"    {table}: {layout}" for table, layout in found.items()]
    return "\n".join(lines) + "\n"


def test_another_layout_has_another_number(request: pytest.FixtureRequest) -> None:
    found, recorded = layouts(), RECORDED.read_text() if RECORDED.exists() else ""
    if request.config.getoption("--update"):
        (number, *blocks), (before, *held) = found.split("\n\n"), recorded.split("\n\n")
        known = {block.split("\n", 1)[0]: block.strip() for block in held}
        changed = [b for b in blocks if known.get(b.split("\n", 1)[0], b.strip()) != b.strip()]
        assert number != before or not changed, (
            f"raise LAYOUT (sqlengine/snapshots/checkpoints.py) first: {changed}"
        )
        RECORDED.write_text(found)
        return
    assert found == recorded, (
        "raise LAYOUT (sqlengine/snapshots/checkpoints.py), then record with --update"
    )
