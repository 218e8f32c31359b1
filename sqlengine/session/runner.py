"""Runs the planned statements of a session as a graph in this thread."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final, Protocol

from planner.graph.merge import Graph, merge
from planner.logical import Sink
from planner.settings import FILTER_PUSH_DOWN, flag, is_batch
from sqlengine.batch import Batch
from sqlengine.connectors.base import Busy, Unanswered
from sqlengine.connectors.base import Sink as OutputSink
from sqlengine.connectors.boundary.openings import StillOpening
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.query_result import ResultSink
from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.executors.failures import OperatorFailed
from sqlengine.executors.graph_change import GraphChange
from sqlengine.executors.memory_limits import script_guard
from sqlengine.executors.runner import GraphRunner
from sqlengine.executors.sources import require_bounded
from sqlengine.executors.steps.guard import StepGuard
from sqlengine.executors.storage import GraphStorage, RunnerOptions
from sqlengine.session import ROWS_PER_READ
from sqlengine.system.file_access import FileAccess

SCRIPT = "script"
# Seconds that a script waits for rows of topics, where no source has any.
IDLE_S: Final = 0.005
_ENDS: Final = "the statement ends here, and rows of it are missing: run it again once that is over"


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while a statement runs. `rows`: the number that it has read; `ends`: it would have
    ended by itself, so that rows of it are missing."""

    def __init__(self, rows: int, *, ends: bool) -> None:
        super().__init__(rows)
        self.rows = rows
        self.ends = ends


class Runner(Protocol):
    """Runs the planned statements of a session: embedded here, or on Spark."""

    @property
    def files(self) -> FileAccess:
        """The files that the statements may use."""

    def run(
        self, sinks: Sequence[Sink], settings: Mapping[str, str], emit: Callable[[Batch], None]
    ) -> int:
        """Runs until all sources have ended, passes a query's rows to `emit`, and returns the
        number of rows read."""


@dataclass
class EmbeddedRunner:
    """Runs a graph in this thread, without epoch log and checkpoints: a killed script begins anew.

    Each run has a writer name of its own: its epochs begin at 1, and sinks drop epochs that a
    writer repeats. `idle` is called when no source has rows, `proceed` before each epoch with the
    number of rows read: False ends the run. `dead_letters` takes rows that are set aside;
    `guard` may end a step; `begun` sees the graph before its first epoch. `epoch_bytes`: rows of a
    query that wait for the end of their epoch, at most. `on_spark`: its operators run there."""

    environment: Environment
    factory: OperatorFactory
    rows_per_read: int = ROWS_PER_READ
    idle: Callable[[], object] = lambda: None
    proceed: Callable[[int], bool] = lambda rows: True
    dead_letters: OutputSink | None = None
    guard: StepGuard | None = None
    begun: Callable[[GraphRunner], object] = lambda runner: None
    epoch_bytes: float = math.inf
    on_spark: bool = False
    _runs: Iterator[int] = field(default_factory=count)

    @property
    def files(self) -> FileAccess:
        """See `Runner`."""
        return self.environment.files

    def run(
        self, sinks: Sequence[Sink], settings: Mapping[str, str], emit: Callable[[Batch], None]
    ) -> int:
        return self.run_jobs({SCRIPT: sinks}, settings, emit)

    def run_jobs(
        self,
        jobs: Mapping[str, Sequence[Sink]],
        settings: Mapping[str, str],
        emit: Callable[[Batch], None] = lambda batch: None,
    ) -> int:
        """Runs the plans of several jobs as one graph, see `Runner.run`. `settings` are those of
        all of them."""
        runner = self._open(jobs, settings, emit)
        ends = True
        try:
            change = _prepared(runner, merge(Graph(), jobs), self.environment.openings.timeout_s)
            ends = all(running.source.bounded for running in change.sources.values())
            if is_batch(settings):
                require_bounded(change.sources.values())
            self.check(change)
            runner.apply(change)
            self.begun(runner)
            while not runner.finished:
                if not self.proceed(runner.progress.rows_in):
                    return runner.progress.rows_in
                if not _answered(runner.step):
                    self.idle()
            _answered(runner.step)
            runner.outputs.publish_overwrites()
            return runner.progress.rows_in
        except OperatorFailed as failure:
            if failure.out_of_reach is None:
                raise
            raise failure.out_of_reach from None
        except KeyboardInterrupt:
            raise Interrupted(runner.progress.rows_in, ends=ends) from None
        except Busy as error:
            error.hint = _ENDS  # who raised it means jobs, which try again
            raise
        finally:
            runner.close()

    def check(self, change: GraphChange) -> None:
        """Raises SqlError for a graph with open sources that cannot run here."""

    def executor(self, number: int, settings: Mapping[str, str]) -> EmbeddedExecutor:
        """Returns the executor of another graph, which has this number."""
        filters = flag(settings, FILTER_PUSH_DOWN, default=True)
        return EmbeddedExecutor(self.factory, self.guard, filters=filters)

    @property
    def rows_per_epoch(self) -> int:
        """The rows that one epoch reads of one shard, at most."""
        return self.rows_per_read

    def _open(
        self, jobs: Collection[str], settings: Mapping[str, str], emit: Callable[[Batch], None]
    ) -> GraphRunner:
        fails = settings.get("job.on-error", "fail") != "dead-letter"
        number = next(self._runs)
        return GraphRunner(
            SCRIPT,
            self.executor(number, settings),
            replace(self.environment, writer=f"{self.environment.writer}-{number}"),
            GraphStorage(dead_letters=self.dead_letters),
            options=RunnerOptions(
                lambda owner: fails,
                self.rows_per_epoch,
                script_guard(SCRIPT, settings, jobs),
                ResultSink(emit, self.epoch_bytes),
            ),
        )


def _prepared(runner: GraphRunner, graph: Graph, patience_s: float) -> GraphChange:
    """Prepares the graph of a statement; waits for tables that take long to open."""
    while True:
        try:
            return runner.prepare(graph, dict.fromkeys(graph.jobs, 1))
        except StillOpening as error:
            if not error.wait(patience_s):
                raise


def _answered(step: Callable[[], bool]) -> bool:
    """Runs a step until every table has answered, or has had the time that it may take."""
    while True:
        try:
            return step()
        except Unanswered:
            continue
