"""One statement in several instances: its stages as Spark runs them, without Spark. Every instance
has a part of the buckets, batches are small, behind each of them all that was in memory is gone,
and the next one has another number of instances: buckets move with what is kept of them."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final

import pytest

from parser.errors import SqlError
from planner.graph.merge import Graph, merge
from planner.graph.physical import PhysicalPlan, lower
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.connectors.base import Environment
from sqlengine.connectors.memory.tables import Memory
from sqlengine.executors.spark import keyed as spark_keyed
from sqlengine.executors.spark import sources as spark_sources
from sqlengine.executors.spark.outputs import BatchOutputs
from sqlengine.executors.spark.plan import CutPlan, cut_plan
from sqlengine.executors.spark.runner import SparkRunner
from sqlengine.executors.spark.script_runner import build_spark_plan
from sqlengine.executors.spark.sources import DriverSources, InputSplit, splits_to_table
from sqlengine.formats.results import Row
from tests.restores.lives import START, Outcome, Rows, Statement, files_in
from tests.spark.staged import Staged

BATCHES: Final = 2
INSTANCES: Final = (2, 3)


def in_instances(
    statement: Statement, folder: Path, out: Path, rows_per_read: int, counts: Counter[str]
) -> Outcome:
    """What comes out; nothing for a statement whose rows need not come together."""
    before = set(out.rglob("*"))
    outcome = Outcome()
    plan = lower(merge(Graph(), {statement.sinks[0].job: statement.sinks}))
    cut = cut_plan(plan)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                spark_sources, "_READ_BY_TASKS", {}
            )  # whoever reads: in turns of so many rows as elsewhere
            patch.setattr(spark_keyed, "_cache", lambda instance, key: None)  # only files last
            _run(statement, plan, cut, folder, rows_per_read, outcome, counts)
    except SqlError as error:
        outcome.error = str(error)
    outcome.files = files_in(out, before)
    return outcome


def _run(
    statement: Statement,
    plan: PhysicalPlan,
    cut: CutPlan,
    folder: Path,
    rows_per_read: int,
    outcome: Outcome,
    counts: Counter[str],
) -> None:
    told: list[Row] = []
    outcome.rows[0] = told
    with ExitStack() as stack:
        broker = stack.enter_context(
            closing(EmbeddedBroker(folder / "topics", fsync="none", clock=lambda: START))
        )
        environment = Environment(broker, lambda: START, "instances", lambda line: None, Memory())
        sources = stack.enter_context(closing(DriverSources(plan, environment, rows_per_read)))
        outlet = BatchOutputs(
            plan,
            cut.sinks,
            environment,
            Rows(told).write,
            fails=statement.fails,
            set_aside=None,
            first_epoch=1,
        )
        stack.callback(outlet.close)
        ((works, _),) = sources.batches()
        parts = _parts(works)
        plans = {
            1: build_spark_plan(
                cut, sources.shard_names, str(folder), folder / "patterns", rows_per_read
            )
        }
        for number, part in enumerate(parts):
            instances, state = INSTANCES[number % len(INSTANCES)], (folder / "state").as_uri()
            staged = Staged(2)
            runner = SparkRunner(
                staged, plans, 1, state, outlet.deliver, instances, clock=lambda: START
            )
            runner.run(
                staged.createDataFrame(splits_to_table(part)), number, end=number == len(parts) - 1
            )
            counts["batches"] += 1
        outlet.finish()


def _parts(works: list[InputSplit]) -> list[list[InputSplit]]:
    """Works in order, in so many batches that buckets move several times."""
    size = max(1, -(-len(works) // BATCHES))
    return [works[start : start + size] for start in range(0, len(works), size)] or [[]]
