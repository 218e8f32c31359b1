"""One program run: planned as one job, its graph stepped here, its tables in memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from parser.errors import SqlError
from parser.types import Column, Schema
from planner.catalog import Catalog, Table
from planner.graph.merge import Graph, merge
from planner.logical import LogicalPlan
from planner.settings import MINI_BATCH, RUNTIME_MODE
from sqlengine.batch import Batch
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.memory.tables import Memory
from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.executors.failures import OperatorFailed
from sqlengine.executors.recovery.repeating import restore
from sqlengine.executors.runner import GraphRunner
from sqlengine.executors.storage import GraphStorage, RunnerOptions
from sqlengine.formats.results import rows_of
from sqlengine.jobs.planning import JobText, PlannedJob, plan_job
from sqlengine.snapshots import savepoint_files as files
from sqlengine.snapshots.checkpoints import Checkpoints
from sqlengine.snapshots.savepoints import SavepointInfo, capture_savepoint, restoration
from sqlengine.state.store import MemoryStore
from sqlengine.system.disk import MachineDisk
from tests.conformance.program_values import (
    Printed,
    batch_of,
    difference,
    joined,
    materialised,
    printed,
)
from tests.conformance.programs import Outcome, Program, TableStep, expected_rows, programs

JOB = "program"
# The graph in which it goes on from a savepoint.
RESTARTED = "restarted"
DEFAULT_ROWS = 4096
NOW_MS = 1_700_000_000_000
PAUSE_MS = 60_000
# More steps than any program has rows: what goes on beyond them never ends.
MAX_STEPS = 20_000


@dataclass
class Clock:
    """Processing time stands still, but for the pause before the rows that come after a restore."""

    now_ms: int = NOW_MS


@dataclass(frozen=True)
class Way:
    """How a program is run: rows read at a time, whether changes are folded, whether it is restored
    half-way, and whether the kinds of its rows are to be Flink's."""

    name: str
    rows: int
    mini_batch: bool
    restored: bool = False
    exact: bool = True


@dataclass
class Ran:
    """A run that is over: what is in the sinks, and whether each has one input only."""

    job: PlannedJob
    memory: Memory
    tables: dict[str, Table]


def run_programs(path: Path, only: str | None = None) -> Iterator[Outcome]:
    """The outcomes of a file of programs, one after the other."""
    for program in programs(path, only):
        yield run_program(program)


def run_program(program: Program) -> Outcome:
    outcome = Outcome(program)
    if program.not_applicable:
        return outcome
    try:
        if program.statements and any(s.expected for s in program.sinks):
            program = _in_its_mode(program)
            for way in _ways(program):
                _run_way(program, way, outcome)
        for sql, message in program.failing:
            outcome.faults += _failing(program, sql, message)
    except SqlError as error:
        outcome.faults.append(_shown(error))
    except OperatorFailed as error:
        outcome.faults.append(str(error))
    except Exception as error:  # noqa: BLE001  a fault of ours, which is to be seen beside the others
        outcome.faults.append(f"internal error: {type(error).__name__}: {error}")
    return outcome


def _in_its_mode(program: Program) -> Program:
    """A program of constant rows that streams refuse is one of Flink's for batch mode."""
    if program.sources:
        return program
    in_batch = replace(program, settings={**program.settings, RUNTIME_MODE: "batch"})
    try:
        _planned(program, program.statements, program.settings)
    except SqlError:
        return in_batch
    return program


def _ways(program: Program) -> list[Way]:
    folded = program.batch is not None
    rows = program.batch or 1
    restored = Way("restored", rows, folded, restored=True)
    if program.restores and any("CURRENT_WATERMARK" in s.upper() for s in program.statements):
        # There is none behind a restart.
        return [
            restored,
            Way("restored in batches", DEFAULT_ROWS, mini_batch=True, restored=True, exact=False),
        ]
    # Flink's bundles end where a checkpoint is made.
    ways = [
        Way("row by row", rows, folded, exact=not (folded and program.restores)),
        Way("in batches", DEFAULT_ROWS, mini_batch=True, exact=False),
    ]
    # What a look-up finds depends on when it looks.
    if program.restores and "LookupJoin" in program.group:
        return [restored]
    return [*ways, restored] if program.restores else ways


def _run_way(program: Program, way: Way, outcome: Outcome) -> None:
    faults = _faults(program, way, outcome)
    # A bundle counts the rows that reach an operator, not those read; and which rows of two inputs
    # are late depends, in Flink too, on how they come together.
    if faults and way.mini_batch and (way.exact or len(program.sources) > 1):
        faults = _faults(program, replace(way, rows=1), outcome)
    outcome.faults += faults


def _faults(program: Program, way: Way, outcome: Outcome) -> list[str]:
    ran = run(program, way, program.statements)
    faults = []
    for step in program.sinks:
        held = ran.memory.table(step.name).rows
        found = (
            [] if held is None else printed(_ordered(held, columns_of(step, ran.tables[step.name])))
        )
        rows = [] if held is None else rows_of(held)
        outcome.rows[way.name, step.name] = [(kind, list(row)) for kind, row in rows]
        why = judge(step, ran, found, exact=way.exact)
        if why is not None:
            faults.append(f"{step.name} {way.name}: {why}")
    return faults


def judge(step: TableStep, ran: Ran, found: Sequence[Printed], *, exact: bool) -> str | None:
    """What is wrong with the rows of a sink. `exact`: the kinds of its rows count, where it has one
    input only, and the program does not tell what its result is in the end."""
    table = ran.tables[step.name]
    columns = columns_of(step, table)
    typed = printed(batch_of(columns, [r for r in step.expected if not isinstance(r, str)]))
    expected = expected_rows(step.expected, typed)
    if exact and step.final is None and inputs(ran.job, step.name) < 2:
        why = difference(joined(expected), joined(found))
        if why is not None:
            return why
    key = [i for i, c in enumerate(columns) if c.name in table.primary_key]
    final = expected if step.final is None else printed(batch_of(columns, step.final))
    return difference(materialised(final, key), materialised(found, key))


def inputs(job: PlannedJob, sink: str) -> int:
    """How many leaves the plans have that write to the sink."""
    plans: list[LogicalPlan] = [
        s for s in job.sinks if s.table is not None and s.table.display == sink
    ]
    count = 0
    while plans:
        plan = plans.pop()
        count += not plan.inputs
        plans += plan.inputs
    return count


def _failing(program: Program, sql: str, message: str) -> Iterator[str]:
    """A statement that must be refused, or fail while it runs, for the reason that Flink gives."""
    try:
        run(program, Way("row by row", 1, mini_batch=False), (*program.statements, sql))
    except SqlError as error:
        if not same_message(message, _shown(error)):
            yield f"fails for another reason: {_shown(error)}"
        return
    yield f"does not fail: {sql[:60]}"


def same_message(expected: str, found: str) -> bool:
    """Whether an error says what Flink's first sentence does: all that it quotes, and most of its
    words."""
    first = expected.split(". ")[0].lower()
    ours = found.lower()
    if any(name not in ours for name in re.findall(r"'([^']*)'", first)):
        return False
    words = set(re.findall(r"[a-z_]{3,}", first))
    return sum(w in ours for w in words) >= 0.5 * len(words)


def _shown(error: SqlError) -> str:
    parts = (error.message, error.detail, error.hint)
    return "; ".join(p for p in parts if p).replace("\n", " ")


def run(program: Program, way: Way, statements: Iterable[str]) -> Ran:
    """Runs the program to the end of its sources. SqlError where it is refused or fails."""
    settings = {MINI_BATCH: str(way.mini_batch).lower(), "job.on-error": "fail", **program.settings}
    if not way.mini_batch:
        settings[MINI_BATCH] = "false"
    job = _planned(program, statements, settings)
    tables = {o.display: o for o in job.objects if isinstance(o, Table)}
    ran = Ran(job, Memory(), tables)
    clock = Clock()
    runner = _runner(ran, store := MemoryStore(), way, clock)
    try:
        if program.restores:
            _go(ran, runner, program.sources, "before")
            clock.now_ms += PAUSE_MS
            if way.restored:
                store = _from_savepoint(ran, runner, clock)
                runner.close()
                runner = _runner(ran, store, way, clock, RESTARTED)
        _go(ran, runner, program.sources, "after" if program.restores else "all")
        # The job of such a program goes on: its timers go off before its tables end.
        if program.restores:
            clock.now_ms += PAUSE_MS
            _end(ran, runner, program.sources)
    finally:
        runner.close()
    return ran


def _planned(
    program: Program, statements: Iterable[str], settings: Mapping[str, str]
) -> PlannedJob:
    definitions = [s.definition for s in (*program.sources, *program.sinks)]
    statements = [_viewed(program, s) for s in statements]
    return plan_job(JobText(JOB, ";\n".join((*definitions, *statements))), Catalog(), settings)


def _viewed(program: Program, sql: str) -> str:
    """A query of a program that has no table to write to is only planned."""
    is_query = not program.sinks and re.match(r"(SELECT|VALUES|WITH)\b", sql, re.IGNORECASE)
    return f"CREATE VIEW unwritten AS {sql}" if is_query else sql


def _feed(ran: Ran, step: TableStep, part: str) -> None:
    rows = {"before": step.before, "after": step.after, "all": (*step.before, *step.after)}[part]
    table = ran.tables[step.name]
    target = ran.memory.table(step.name)
    target.open = part != "all"
    if rows:
        target.append(_ordered(batch_of(columns_of(step, table), rows), _stored(table)))


def _stored(table: Table) -> tuple[Column, ...]:
    return (*table.physical, *(m.column for m in table.metadata))


def columns_of(step: TableStep, table: Table) -> tuple[Column, ...]:
    """The columns in the order of a program's values: metadata by the order in which its connector
    lists them."""
    places = {key: i for i, key in enumerate(step.metadata)}
    return (
        *table.physical,
        *(m.column for m in sorted(table.metadata, key=lambda m: places.get(m.key, len(places)))),
    )


def _ordered(rows: Batch, columns: Sequence[Column]) -> Batch:
    return rows.with_columns(Schema(tuple(columns)), [rows.column(c.name) for c in columns])


def _runner(ran: Ran, store: MemoryStore, way: Way, clock: Clock, name: str = JOB) -> GraphRunner:
    """A runner with the program's statements, from the checkpoint in the store where there is
    one."""
    checkpoints = Checkpoints(store, 10**9, 10**15)
    runner = GraphRunner(
        name,
        EmbeddedExecutor(OperatorFactory()),
        Environment(None, lambda: clock.now_ms, name, memory=ran.memory),
        GraphStorage(checkpoints=checkpoints),
        RunnerOptions(lambda owner: True, way.rows),
    )
    position = checkpoints.position
    if position is None:
        runner.apply(runner.prepare(merge(Graph(), {JOB: ran.job.sinks}), {JOB: 1}))
    else:
        graph = merge(Graph(position.version - 1), {JOB: ran.job.sinks}, position.stateful)
        restore(runner, position, runner.prepare(graph, {JOB: 1}))
    return runner


def _from_savepoint(ran: Ran, runner: GraphRunner, clock: Clock) -> MemoryStore:
    """The checkpoint of a job that starts from a savepoint of the running one."""
    disk, store = MachineDisk(), MemoryStore()
    with TemporaryDirectory() as folder:
        saved = files.write(
            disk,
            Path(folder, "savepoint"),
            *capture_savepoint(runner, JOB, SavepointInfo("", 1, {}, clock.now_ms)),
        )
        found = restoration(
            disk, files.read(disk, Path(saved.path)), JOB, ran.job.sinks, OperatorFactory()
        )
    for table in ran.memory.tables.values():
        table.overwritten = RESTARTED  # a job that goes on overwrites nothing
    store.put(msgspec.to_builtins(found.position(RESTARTED, JOB, 1, 0)), found.tables)
    return store


def _go(ran: Ran, runner: GraphRunner, sources: Iterable[TableStep], part: str) -> None:
    """Feeds a part of the rows and runs until all of them are through."""
    for step in sources:
        _feed(ran, step, part)
    _through(runner)


def _end(ran: Ran, runner: GraphRunner, sources: Iterable[TableStep]) -> None:
    _through(runner)
    for step in sources:
        ran.memory.table(step.name).open = False
    _through(runner)


def _through(runner: GraphRunner) -> None:
    for _ in range(MAX_STEPS):
        if not runner.step():
            return
    raise TimeoutError(f"not over after {MAX_STEPS} steps")
