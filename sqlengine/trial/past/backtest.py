"""Runs rules over the past of the tables that they read: one graph of all rules, whose alerts are
counted and go nowhere."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import numpy as np

from parser.errors import PlanError
from parser.types import Schema, TimeAttribute
from planner.catalog import Table
from planner.logical import AssignWatermark, LogicalPlan, Project, Scan, Sink
from planner.rewrite import nodes
from planner.scalar import digest_of
from sqlengine.batch import Batch, IntArray
from sqlengine.connectors.memory.tables import Memory
from sqlengine.executors.measures.job_costs import JobCosts
from sqlengine.executors.runner import GraphRunner
from sqlengine.executors.sinks.rows_set_aside import RowsSetAside
from sqlengine.jobs.explanation import stages_on_spark
from sqlengine.session.runner import EmbeddedRunner
from sqlengine.system.words import count
from sqlengine.trial.past.alerts import AlertTable, Counting, Tally
from sqlengine.trial.past.clock import Clock
from sqlengine.trial.past.comparing import Comparison, Difference
from sqlengine.trial.past.event_time import with_time
from sqlengine.trial.past.tables import Past, looked_up
from sqlengine.trial.rules import MEMORY, TrialRule

# In front of the names of jobs that are the other version: no job has such a name.
_OTHER: Final = "other version of "
SETTINGS: Final = {"job.on-error": "dead-letter"}
# Takes alerts: the rule, the table, and its rows.
Listen: TypeAlias = Callable[[str, str, Batch], None]


@dataclass(frozen=True)
class Measured:
    """A rule over the past: its alerts, the CPU seconds of its operators, and how they differ from
    those of the other version, None without one."""

    tally: Tally
    seconds: float
    difference: Difference | None


@dataclass(frozen=True)
class Outcome:
    """A backtest that has run: the rules by name, the rows that were read, the CPU seconds of the
    process and of tasks since reading began, and the tables that were looked up as they are now.
    `last`: the greatest row time that was read (ms), None where that is not known."""

    rules: Mapping[str, Measured]
    rows: int
    cpu_s: float
    seconds: float
    looked_up: Sequence[str] = ()
    last: int | None = None


@dataclass
class Backtest:
    """Rules, and perhaps `others`, their other versions by the same names, over the `past`.

    `columns`: those whose values are counted; `samples`: so many alerts of each difference are
    kept; `listen` hears of alerts, as they come; `proceed` is called before each epoch with the
    rows read, and where the clock is."""

    rules: Mapping[str, TrialRule]
    others: Mapping[str, TrialRule]
    past: Past
    columns: Sequence[str] = ()
    samples: int = 3
    listen: Listen | None = None
    proceed: Callable[[int, int | None], None] = lambda rows, now: None
    memory: Memory = field(default_factory=Memory)
    clock: Clock = field(default_factory=Clock)
    jobs: dict[str, list[Sink]] = field(default_factory=dict, init=False)
    _compared: dict[str, Comparison] = field(default_factory=dict, init=False)
    _counting: Counting = field(default_factory=Counting, init=False)
    _looked_up: dict[str, Table] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Makes the plans that run. A version that is equal to the other one does not run twice."""
        self._counting = Counting(self.columns)
        for name, rule in self.rules.items():
            self.jobs[name] = [self._plan(name, s) for s in rule.sinks]
        for name, other in self.others.items():
            if name in self.rules and _same(self.rules[name], other):
                continue
            self._compared[name] = Comparison(self.samples)
            self.jobs[_OTHER + name] = [self._plan(_OTHER + name, s) for s in other.sinks]

    @property
    def topics(self) -> bool:
        """True if a plan reads topics of the broker, or looks rows up there."""
        read = [n.table for n in self._nodes() if isinstance(n, Scan)]
        return any(table.connector == "topic" for table in (*read, *self._looked_up.values()))

    def run(self, runner: EmbeddedRunner, settings: Mapping[str, str]) -> Outcome:
        """Runs all rules to the end of the past. SqlError for what fails a job, or has no past."""
        began, cpu, graphs = time.monotonic(), 0.0, list[GraphRunner]()

        def begun(graph: GraphRunner) -> None:
            nonlocal cpu
            require_past(graph)
            graphs.append(graph)
            self.clock.begin(graph, self._nodes())
            cpu = time.process_time()

        def proceed(rows: int) -> bool:
            self.clock.follow(graphs[-1])
            for comparison in self._compared.values():
                comparison.end_epoch()
            self.proceed(rows, self.clock.now)
            return True

        self._begin_clock(runner)
        runner.begun, runner.proceed = begun, proceed
        rows = runner.run_jobs(self.jobs, {**SETTINGS, **settings})
        if not runner.on_spark:  # there the tasks know the times
            self.clock.follow(graphs[-1])
        seconds = {n: c.cpu_s for n, c in JobCosts(lambda: graphs[-1]).read().items()}
        spent = time.process_time() - cpu
        in_tasks = sum(seconds.values()) if runner.on_spark else 0.0
        return Outcome(
            {name: self._measured(name, seconds) for name in self._names()},
            rows,
            spent + in_tasks,
            time.monotonic() - began,
            sorted(self._looked_up),
            None if runner.on_spark else self.clock.now,
        )

    def _nodes(self) -> Iterator[LogicalPlan]:
        return (n for sinks in self.jobs.values() for sink in sinks for n in nodes(sink))

    def _names(self) -> list[str]:
        return sorted({*self.rules, *self.others})

    def _measured(self, name: str, seconds: Mapping[str, float]) -> Measured:
        compared = self._compared.get(name)
        equal = Difference() if name in self.others else None
        return Measured(
            self._counting.tallies[name],
            seconds.get(name, 0.0),
            equal if compared is None else compared.difference(),
        )

    def _plan(self, job: str, sink: Sink) -> Sink:
        """Returns the plan over the past, that writes to a table in memory which hands its rows
        on."""
        past = self.past.of(sink)
        self._looked_up |= looked_up(past)
        rows = with_time(past.input)
        assert sink.table is not None
        table = _collecting(sink.table, rows)
        name = table.options["name"]
        held = self.memory.tables.setdefault(
            name, AlertTable(display=sink.table.display, take=self._take)
        )
        assert isinstance(held, AlertTable)
        held.jobs.add(job)
        return replace(sink, input=rows, table=table, job=job, overwrite=False, apart=False)

    def _take(self, table: str, jobs: Sequence[str], of: IntArray, rows: Batch) -> None:
        """Counts rows, and hands those on that are listened to, or compared."""
        self._counting.take(jobs, of, rows, self.clock.now)
        wanted = None if self.listen is not None else self._compared
        for number in np.unique(of).tolist():
            rule, other = jobs[number].removeprefix(_OTHER), jobs[number].startswith(_OTHER)
            if wanted is not None and rule not in wanted:
                continue
            own = rows.take(np.flatnonzero(of == number))
            if rule in self._compared:
                self._compared[rule].take(own, other=other)
            if self.listen is not None and not other:
                self.listen(rule, table, own)

    def _begin_clock(self, runner: EmbeddedRunner) -> None:
        """Sets the clock to the beginning of the period, or to the first row times that there
        are."""
        watermarks = {n.digest: n for n in self._nodes() if isinstance(n, AssignWatermark)}
        if watermarks:
            self.clock.now = self.past.period.since
        if not watermarks or self.clock.now is not None or runner.on_spark:
            return
        # What is in error is counted when it is read again.
        looking = replace(runner, dead_letters=RowsSetAside())
        self.clock.now = _first_time(looking, list(watermarks.values()))


def require_past(graph: GraphRunner) -> None:
    """Raises PlanError for a graph that reads a table whose past cannot be read."""
    for running in graph.inputs.running.values():
        if not running.source.bounded and running.full_cache is None:
            table = running.scan.table
            raise PlanError(
                f"table '{table.display}' ('{table.connector}') has no past that could be read",
                hint=f"name files that have it: --table {table.display}=PATH",
            )


def _first_time(runner: EmbeddedRunner, plans: Sequence[AssignWatermark]) -> int | None:
    """Returns the least row time (ms) of the first rows of tables; None where there are none."""
    found: list[int] = []
    begun: list[GraphRunner] = []
    runner.begun = begun.append
    runner.proceed = lambda rows: rows == 0
    for number, plan in enumerate(plans):
        column = plan.watermark.column

        def take(batch: Batch, column: str = column) -> None:
            times = batch.column(column).cast("timestamp[ms]").cast("int64").drop_null()
            found.extend(times.to_pylist())

        runner.run([Sink(plan, None, "first", number)], SETTINGS, take)
    return min(found, default=None)


def on_spark(test: Backtest) -> str:
    """Returns a sentence on how the rules run on Spark: what remembers rows, and by which keys."""
    ways: Counter[str] = Counter()
    for sinks in test.jobs.values():
        if not any(node.stateful for sink in sinks for node in nodes(sink)):
            ways["in tasks for each part of what is read"] += 1
            continue
        exchanges = [e for s in stages_on_spark(sinks, {}) for e in s.exchanges]
        keys = [e.keys for e in exchanges if e.keys is not None]
        ways[f"by {', '.join(keys[0])}" if keys and all(keys) else "as a whole"] += 1
    return "; ".join(f"{count(number, 'rule')} {way}" for way, number in ways.most_common())


def _same(rule: TrialRule, other: TrialRule) -> bool:
    """True if two versions of a rule have equal plans."""
    return [s.input.digest for s in rule.sinks] == [s.input.digest for s in other.sinks]


def _collecting(table: Table, rows: Project) -> Table:
    """Returns the table in memory for rows of a table: one for all rules that write the same."""
    types = {c.name: table.written_type(c.name) for c in table.schema}
    columns = [replace(c, type=types.get(c.name, c.type)) for c in rows.schema]
    schema = Schema(
        tuple(
            replace(c, type=c.type.with_nullable(True).as_attribute(TimeAttribute.NONE))
            for c in columns
        )
    )
    name = digest_of(*table.name, str(schema))
    options = {"connector": MEMORY, "name": name, "changelog-mode": "I,UB,UA,D"}
    return Table(table.name, schema, schema, options)
