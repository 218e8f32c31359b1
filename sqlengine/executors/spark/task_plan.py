"""Makes the plan that workers run of the stages of a graph."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from planner.scalar import Scalar
from sqlengine.executors.spark.fragment import FragmentOperator
from sqlengine.executors.spark.options import SparkOptions
from sqlengine.executors.spark.plan import CutPlan
from sqlengine.executors.spark.stage import SourceStage
from sqlengine.executors.spark.tasks.askers import TaskAskers
from sqlengine.executors.spark.tasks.functions import TaskFunctions
from sqlengine.executors.spark.worker import SparkPlan
from udf.user import is_user


def task_plan(
    cut: CutPlan,
    options: SparkOptions,
    name: str,
    version: int,
    timeouts: Mapping[str, float],
    filters: Mapping[str, Scalar],
) -> SparkPlan:
    """Returns the plan that workers run, see `SparkPlan`. `filters`: of scans, see
    `EmbeddedExecutor`."""
    rules = options.rules()
    factory = options.factory.with_asker(TaskAskers(rules))
    functions = TaskFunctions.of_driver(filter(is_user, cut.functions))
    answers = functions.varying or cut.asks
    answers_in = options.uri if answers else None
    digests_in = options.uri if options.durable else None
    return SparkPlan(
        name,
        version,
        partial(
            SourceStage,
            cut.sources,
            factory,
            options.rows_per_turn,
            rules,
            filters,
            answers_in,
            digests_in,
        ),
        cut.exchange,
        tuple(partial(FragmentOperator, fragment, factory) for fragment in cut.keyed),
        rules,
        functions,
        timeouts,
        answers=answers,
    )
