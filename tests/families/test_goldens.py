"""The golden scripts of streams, each query run by five jobs with other literals, of which each has
the same rows in families as alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from parser.errors import SqlError
from parser.types import BIGINT, Column, Schema
from planner.graph.merge import Graph, merge
from planner.logical import Filter, LogicalPlan, Project, Sink
from planner.rewrite import references, rewrite, transform
from planner.scalar import COMPARISONS, Call, Literal, Scalar
from sqlengine.batch import Batch
from sqlengine.broker.embedded import EmbeddedBroker, system_clock
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.memory.tables import Memory
from sqlengine.executors.build import OperatorFactory
from sqlengine.formats.results import rows_of
from sqlengine.session.runner import EmbeddedRunner
from sqlengine.session.session import Session
from tests.sql.golden import Script, scripts

# What each job adds to the numbers that a query compares with.
ADDED = (0, 1, -1, 2, 5)
JOB = Column("job", BIGINT.with_nullable(False))
SCRIPTS = [s for s in scripts() if s.mode == "streaming"]
# Scripts of the quick suite.
SAMPLE = {
    "aggregates/distinct_null",
    "joins/after_ranks",
    "match/after_ranks",
    "ranks/zeros",
    "windows/self_joined",
}


def variant(sink: Sink, number: int) -> Sink:
    """The query of one job: it compares with other numbers, and each of its rows has its number."""

    def change(call: Call) -> Scalar:
        if call.function not in COMPARISONS:
            return call
        return replace(call, args=tuple(map(moved, call.args)))

    def moved(e: Scalar) -> Scalar:
        if isinstance(e, Literal) and type(e.value) is int and e.type.is_integer:
            return replace(e, value=e.value + ADDED[number])
        return e

    def rule(node: LogicalPlan) -> LogicalPlan:
        if isinstance(node, Filter):
            return replace(node, predicate=rewrite(node.predicate, change))
        return node

    below = transform(sink.input, rule)
    items = (*references(below.schema, below.schema.names), (JOB.name, Literal(number, JOB.type)))
    return replace(sink, input=Project(below, items), job=f"j{number}")


@dataclass
class FiveJobs(EmbeddedRunner):
    """Runs queries as five jobs, deployed one after the other. `found`: the rows of each job, by
    query; `families`: how many have run."""

    found: list[dict[int, list[object]]] = field(default_factory=list)
    families: int = 0

    def run(
        self, sinks: Sequence[Sink], settings: Mapping[str, str], emit: Callable[[Batch], None]
    ) -> int:
        if sinks[0].table is not None:
            return super().run(sinks, settings, emit)
        rows: dict[int, list[object]] = {}
        self.found.append(rows)

        def take(batch: Batch) -> None:
            for op, row in rows_of(batch):
                rows.setdefault(int(str(row.pop())), []).append((op, row))

        graph = Graph()
        for number in range(len(ADDED)):
            graph = merge(graph, {f"j{number}": [variant(sink, number) for sink in sinks]})
        runner = self._open(graph.jobs, settings, take)
        try:
            runner.apply(runner.prepare(graph, dict.fromkeys(graph.jobs, 1)))
            self.families += len(runner.executor.run.families)
            while not runner.finished:
                runner.step()
            runner.step()
        finally:
            runner.close()
        return 0


class Silent:
    """Takes the output of a script, of which the errors alone are kept."""

    def __init__(self) -> None:
        self.errors: list[tuple[int, str]] = []

    def schema(self, stmt: int, schema: Schema) -> None: ...

    def rows(self, stmt: int, batch: Batch) -> None: ...

    def done(self, stmt: int, message: str) -> None: ...

    def error(self, stmt: int, error: SqlError) -> None:
        self.errors.append((stmt, type(error).__name__))


@contextmanager
def five_jobs(data: Path, *, families: bool) -> Iterator[FiveJobs]:
    broker = EmbeddedBroker(data, fsync="none", clock=system_clock)
    environment = Environment(broker, system_clock, "script", memory=Memory())
    factory = OperatorFactory(families=families)
    yield FiveJobs(environment, factory, idle=lambda: None)
    broker.close()


def run(script: Script, folder: Path, *, families: bool) -> tuple[FiveJobs, Silent]:
    (out := folder / "out").mkdir(parents=True)
    output = Silent()
    with five_jobs(folder / "topics", families=families) as runner:
        Session(runner, output).run(script.with_folders(out))
    return runner, output


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(s, id=s.name, marks=() if s.name in SAMPLE else (pytest.mark.slow,))
        for s in SCRIPTS
    ],
)
def test_rows_in_families_are_those_of_single_jobs(script: Script, tmp_path: Path) -> None:
    together, errors = run(script, tmp_path / "together", families=True)
    alone, errors_alone = run(script, tmp_path / "alone", families=False)
    assert together.found == alone.found
    assert errors.errors == errors_alone.errors
    assert not alone.families
    assert together.families or script.name not in SAMPLE


def test_the_sample_is_there() -> None:
    assert {s.name for s in SCRIPTS} >= SAMPLE
