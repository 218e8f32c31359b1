"""What every step of the analysis and every pass of the optimiser promises: the name of its module,
an example that runs as a doctest, a switch, and columns that stay."""

from __future__ import annotations

import ast
import doctest
from importlib import import_module
from typing import Any

import pytest

import planner
from parser import parse
from parser.statements import Insert, Query, Set
from planner import PlannedStatement
from planner.analyzer import ANALYSIS
from planner.examples import capabilities_of, catalog
from planner.logical import Project, Sink
from planner.optimizer import NONE, PASSES, check_schema

STEPS: list[Any] = [*ANALYSIS, *PASSES]
every_step = pytest.mark.parametrize("step", STEPS, ids=lambda s: s.__name__)


def example(step: Any) -> str:
    """The statements of the example in the docstring."""
    (call,) = (
        ast.parse(e.source).body[0]
        for e in doctest.DocTestParser().get_examples(step.__doc__)
        if e.source.startswith("show(")
    )
    assert isinstance(call, ast.Expr)
    assert isinstance(call.value, ast.Call)
    name, sql = map(ast.literal_eval, call.value.args)
    assert name == step.__name__
    assert isinstance(sql, str)
    return sql


def planned(sql: str, disabled: frozenset[str] = NONE) -> PlannedStatement:
    *settings, statement = parse(sql)
    assert isinstance(statement, Query | Insert)
    return planner.plan(
        statement,
        catalog(),
        {s.key or "": s.value or "" for s in settings if isinstance(s, Set)},
        capabilities_of=capabilities_of,
        disabled=disabled,
        traced=True,
    )


def arrows(sql: str, disabled: frozenset[str] = NONE) -> list[str]:
    return [name for trace in planned(sql, disabled).traces for name, _ in trace.steps]


@every_step
def test_it_is_the_function_of_its_module(step: Any) -> None:
    room = "analysis" if step in ANALYSIS else "passes"
    assert getattr(import_module(f"planner.{room}.{step.__name__}"), step.__name__) is step


@every_step
def test_it_has_an_example_and_can_be_switched_off(step: Any) -> None:
    sql = example(step)
    assert step.__name__ in arrows(sql)
    assert step.__name__ not in arrows(sql, frozenset({step.__name__}))


@every_step
def test_its_example_is_run(step: Any) -> None:
    test = doctest.DocTestFinder(recurse=False).find(step)
    assert sum(len(t.examples) for t in test) == 2  # pytest runs them: --doctest-modules


def test_no_two_have_one_name() -> None:
    assert len({s.__name__ for s in STEPS}) == len(STEPS)


def test_columns_stay() -> None:
    sink = planned("SELECT a, s FROM t").sinks[0]
    assert isinstance(sink.input, Project)
    check_schema("nothing", sink, sink)
    other = Sink(Project(sink.input.input, sink.input.items[:1]), None)
    with pytest.raises(AssertionError, match="fewer changed the schema"):
        check_schema("fewer", sink, other)


def test_late_rows_have_sinks_of_their_own() -> None:
    window = (
        "FROM TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '1' HOUR) GROUP BY window_start, window_end"
    )
    sinks = planned(f"SET 'job.late-rows.table' = 'late'; SELECT COUNT(*) AS n {window}").sinks
    assert [s.table.display if s.table else "" for s in sinks] == ["", "late"]
