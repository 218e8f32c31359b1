"""The engine: jobs come, change and go while the graphs run.

Every change takes the same steps, whoever asks for it:

    text -> parse -> bind -> optimize -> merge (into the graph) -> lower -> prepare (compile) ->
    switch (between two epochs)

All but the switch is done by one thread beside the stream (`job_changes.py`, `deploying/`,
`job_lifecycle.py`), one change after the other.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from parser.errors import JobError, Position, ServiceError, SqlError
from planner.catalog import Catalog
from planner.logical import AskedScan
from sqlengine.access.identity import OPEN, Access
from sqlengine.access.principals import TRUSTED, Principal
from sqlengine.access.shadow_names import is_shadow, rule_of, shadow_of
from sqlengine.cluster.instance_groups import InstanceGroups
from sqlengine.config import Config, Target
from sqlengine.connectors.boundary.openings import Openings
from sqlengine.connectors.environment import NO_CALLABLES, Callables
from sqlengine.connectors.folder_name import name_writers
from sqlengine.connectors.memory.tables import Memory
from sqlengine.connectors.receivers.service import Receivers
from sqlengine.engine.changes_thread import ChangesThread
from sqlengine.engine.dead_letters import DeadLetter, DeadLetterQueue
from sqlengine.engine.deploying.job_placement import JobPlacement
from sqlengine.engine.expected_versions import Expected
from sqlengine.engine.graph_manager import GraphManager
from sqlengine.engine.job_changes import JobChanges
from sqlengine.engine.job_failures import JobFailures
from sqlengine.engine.migration.keeping import Keeping
from sqlengine.engine.migration.migrations import Migrations
from sqlengine.engine.recovery import Recovery
from sqlengine.engine.replaying import MAX_LETTERS, Replayed, Replays
from sqlengine.engine.requests import Outcome, Request
from sqlengine.engine.savepoints import Savepoints
from sqlengine.engine.sealed_requests import sealed_request
from sqlengine.engine.shadows.canaries import Canaries
from sqlengine.engine.shadows.comparison import Difference, difference
from sqlengine.engine.shadows.promotion import shadow_job
from sqlengine.engine.shadows.rows import ends_of
from sqlengine.engine.storage import open_broker, open_stores
from sqlengine.engine.table_access import TableAccess
from sqlengine.engine.views.cost_views import CostViews
from sqlengine.engine.views.explanations import Explanations
from sqlengine.engine.views.family_views import FamilyView, families_of
from sqlengine.engine.views.module_hints import module_hints
from sqlengine.engine.views.progress_views import ProgressViews
from sqlengine.engine.views.state_views import StateViews
from sqlengine.engine.views.step_hints import step_hints
from sqlengine.engine.views.table_hints import table_hints
from sqlengine.engine.views.topic_hints import topic_hints
from sqlengine.engine.watch.budgets import Budgets
from sqlengine.engine.watch.isolation import Isolation
from sqlengine.engine.watch.restarts import Restarts
from sqlengine.engine.watch.watch import Watch
from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.dimensions.asking import TableAsker
from sqlengine.executors.epochs import has_epochs
from sqlengine.executors.job_counts import NOTHING, JobCounts
from sqlengine.executors.measures.job_costs import FREE, JobCost
from sqlengine.executors.spark.view import SparkView
from sqlengine.executors.steps.guard import StepView
from sqlengine.executors.steps.limits import Steps
from sqlengine.formats.options import did_you_mean
from sqlengine.functions.library import Library
from sqlengine.functions.pool import POOL
from sqlengine.graphs.host import GraphHost
from sqlengine.graphs.owed_rows import OwedRows
from sqlengine.graphs.reopening import Reopening
from sqlengine.graphs.running import RunningGraph
from sqlengine.jobs.explanation import Json
from sqlengine.jobs.job import Job, JobState, JobVersion, Origin
from sqlengine.jobs.log import JobLog
from sqlengine.jobs.planning import JobText
from sqlengine.jobs.sealing import shown
from sqlengine.jobs.targets import TARGET
from sqlengine.jobs.trail import Trail
from sqlengine.jobs.workers import INLINE
from sqlengine.machine import THIS, Machine
from sqlengine.registry import Registry, text_of
from sqlengine.snapshots.migrations import MigrationStore
from sqlengine.system.memory import settle

# Seconds that running steps have to end when the engine is closed.
_STOP_GRACE_S: Final = 3.0


class Engine:
    """Runs jobs over one data folder: jobs come, change and go while the graphs run.

    Opening it recovers what was there; `start` begins to run. Raises DataFolderLocked if another
    process has the folder. All methods may be called from any thread. Those that change jobs raise
    the SqlError of what is refused.
    """

    def __init__(
        self,
        config: Config,
        machine: Machine = THIS,
        *,
        callables: Callables = NO_CALLABLES,
        memory: Memory | None = None,
        steps: Steps | None = None,
        openings: Openings | None = None,
        access: Access = OPEN,
        on_jobs_known: Callable[[Engine], None] = lambda engine: None,
        trail: Callable[[], Trail | None] = lambda: None,
    ) -> None:
        """`callables`: functions that take the rows of tables with 'connector' = 'python', by the
        names in their option 'callable'. `memory`: tables that the program holds. `steps`: made by
        who wants to see and to end steps of the recovery, too; `openings` likewise for tables.
        `access`: who may do what. `on_jobs_known` is called before it, when `jobs` can be listed.
        What `trail` returns is told of changes of jobs."""
        self.config = config
        self.access = access
        self._threads, self._clock = machine.threads, machine.clock
        self._openings = openings or Openings(machine.threads.lanes(), config.connector_timeout_s)
        self.broker = open_broker(config, machine)
        self.receivers = Receivers(self.broker, machine.clock)
        self.memory = memory
        try:
            name_writers(self.broker, used=has_epochs(self.broker))
            self._open_registry(machine, steps, trail)
            store = self._open_graphs(machine, callables)
            self._open_changes(machine, store)
            self._open_views()
            self._recover(on_jobs_known)
        except BaseException:
            self.receivers.stop()
            self.broker.close()
            raise

    def _open_registry(
        self, machine: Machine, steps: Steps | None, trail: Callable[[], Trail | None]
    ) -> None:
        """Opens what knows of jobs, and the thread that changes them; starts Spark where the
        configuration asks for it: what keeps it from starting is known before anything else."""
        executor = machine.threads.serial_executor("changes")
        self._registry = Registry(self.broker, self.config, machine, steps, self.access)
        told = trail()
        if told is not None:
            told.begin(self.log)
        self._steps = self._registry.steps
        self._failures = JobFailures(self._registry, executor.submit, machine.threads)
        self._thread = ChangesThread(executor, self._failures, self._openings, self._keep_workers)
        self._spark = machine.spark(self.config)
        if self.config.target == "spark" or self.config.places_on_spark:
            self._spark.session()

    def _open_graphs(self, machine: Machine, callables: Callables) -> MigrationStore:
        """Opens what runs graphs, none of which is opened yet; returns where jobs are kept that
        leave them."""
        config, broker, registry = self.config, self.broker, self._registry
        store = MigrationStore(broker, machine.clock, sync=config.fsync == "interval")

        def asker(scan: AskedScan) -> TableAsker:
            return TableAsker(scan, TableAccess(host).environment("look-ups"))

        factory = OperatorFactory(
            machine.rules(config),
            any_times=True,
            families=config.families,
            dimensions=config.dimensions,
            asker=asker,
        )
        host = GraphHost(
            config,
            machine,
            broker,
            factory,
            open_stores(broker, config, machine),
            registry.policies.fails_on_error,
            self._failures.report,
            self._thread.submit,
            registry.memory,
            registry.steps,
            stored_snapshot=store.get,
            store_snapshot=store.replace,
            callables=callables,
            openings=self._openings,
            spark=self._spark,
            receivers=self.receivers,
            memory_tables=self.memory,
        )
        self.instances = InstanceGroups(broker, config, machine, self._spark)
        owed = OwedRows(registry.log.jobs.values, registry.plans_of, store)
        self.graphs = GraphManager(host, registry.plans_of, self.instances, owed)
        self._placement = JobPlacement(host, self.graphs)
        return store

    def _open_changes(self, machine: Machine, store: MigrationStore) -> None:
        """Opens what changes jobs: when somebody asks for it, and by itself."""
        registry, graphs, placement = self._registry, self.graphs, self._placement
        now = machine.threads.now
        self.savepoints = Savepoints(registry, graphs, self.config, machine.disk)
        self._migrations = Migrations(registry, graphs, placement, store)
        keeping = Keeping(registry, graphs, placement, store)
        self._changes = JobChanges(
            registry, graphs, placement, self.savepoints, self._migrations, keeping
        )
        self._lifecycle, self._moves = self._changes.lifecycle, self._changes.moves
        self._recovery = Recovery(
            registry, graphs, self._changes, self._migrations, self.savepoints, self._spark
        )
        self.dead_letters = DeadLetterQueue(self.broker)
        self._replays = Replays(registry, graphs, self.dead_letters)
        self._failures.open(graphs, self._lifecycle)
        self._restarts = Restarts(registry, self._lifecycle, self._failures.forget)
        self._reopening = Reopening(
            graphs.unavailable, self._recovery.await_spark, self._recovery.reopen
        )
        self.canaries = Canaries(registry, self._changes.change, now)
        self.budgets = Budgets(registry, graphs, self._lifecycle, self._moves, self.costs_by_job)
        self._isolation = Isolation(registry, graphs, placement, self._migrations, self._moves, now)

    def _open_views(self) -> None:
        self.state = StateViews(self._registry, self.graphs)
        self.costs = CostViews(self.graphs, self.costs_by_job, self.counts)
        self.progress = ProgressViews(
            self._registry, self.graphs, self.config.settings, self._failures.is_failing
        )
        self._explanations = Explanations(self._registry, self.graphs, self._placement, self.config)

    def _recover(self, on_jobs_known: Callable[[Engine], None]) -> None:
        POOL.join(self, self._failures.report_function)
        self._steps.start(self._threads, self._failures.give_up)
        on_jobs_known(self)
        try:
            self._recovery.recover()
        except BaseException:
            self._steps.close_watch()
            self.graphs.abandon()
            self._spark.close()
            self._thread.executor.shutdown()
            POOL.leave(self)
            raise

    def _watches(self) -> Iterator[Watch | Reopening]:
        """Yields what looks after jobs and graphs by itself."""
        yield from (self._restarts, self._reopening, self.canaries, self.budgets)
        if self.config.isolation:
            yield self._isolation

    def start(self) -> None:
        """Starts the graphs and what looks after jobs."""
        # The graph's thread releases the interpreter's lock in every kernel. Beside a change, which
        # computes in Python, it waits for one switch interval to have it back: 5 ms by default.
        # Below 0.1 ms switching itself costs.
        sys.setswitchinterval(0.0001)
        settle()
        self.graphs.start()
        for watch in self._watches():
            watch.start(self._threads, self._thread.submit)

    def close(self) -> None:
        """Ends the running epochs, writes checkpoints, releases the folder."""
        if self._failures.closed.is_set():
            return
        self._failures.closed.set()
        for watch in self._watches():
            watch.stop()
        self._openings.stop()
        # A running step may end, but not for long: the next start repeats what is cut short.
        ending = self._threads.later(_STOP_GRACE_S, self._steps.stop)
        try:
            self._thread.executor.shutdown(wait=True)
            self.graphs.close()
        finally:
            ending.cancel()
            self._steps.close_watch()
            self._spark.close()
            POOL.leave(self)
            self.receivers.stop()
            self.broker.close()

    def _keep_workers(self) -> None:
        """Keeps the workers of the functions that jobs may call, and ends others."""
        if POOL.hosts():  # else spare the pass over all jobs
            POOL.keep(self, self._registry.modules())

    # ---- requests --------------------------------------------------------------------------------

    def submit(
        self,
        name: str,
        sql: str,
        origin: Origin = Origin.SDK,
        *,
        file: str | None = None,
        savepoint: str | None = None,
        target: Target | None = None,
        by: Principal = TRUSTED,
    ) -> Outcome:
        """Adds or replaces a job, which starts from a savepoint if one is given, and runs on
        `target`, whatever its text says, if that is.

        Raises the SqlError of a text that is refused; the old version runs on.
        """
        request = Request(
            origin,
            {name: JobText(name, sql, file)},
            savepoints={} if savepoint is None else {name: savepoint},
            targets={} if target is None else {name: target},
            by=by,
        )
        return _raised(self.change(request)[name])

    def remove(self, name: str, origin: Origin = Origin.SDK) -> Outcome:
        """Removes a job and its state. Its versions stay in the history."""
        return _raised(self.change(Request(origin, removes=frozenset({name})))[name])

    def change(self, request: Request) -> dict[str, Outcome]:
        """Makes a change of many jobs. Refused ones leave no trace; the others take effect
        together."""
        with sealed_request(self._registry, request.signed()) as sealed:
            return sealed.told(self._make(sealed.request))

    def _make(self, request: Request) -> dict[str, Outcome]:
        if "spark" in request.targets.values() or any(
            TARGET in text.sql and "spark" in text.sql for text in request.upserts.values()
        ):
            with suppress(SqlError):  # who needs it is told so in turn
                self._spark.session()
        for name, text in request.upserts.items():
            self._registry.plan_ahead(text, {name})
        try:
            with self._steps.leaving(self._changes.removable(request)):
                outcomes = self._thread.change(self._changes.change, request)
        finally:
            self._registry.planner.forget_ahead(request.upserts)
        if len(outcomes) > INLINE:
            settle()
        self._failures.forget(() if request.dry_run else outcomes)
        return outcomes

    def validate(
        self,
        name: str,
        sql: str,
        origin: Origin = Origin.SDK,
        *,
        file: str | None = None,
    ) -> Outcome:
        """Returns what `submit` would do, without doing it. Raises the SqlError of a refusal."""
        request = Request(origin, {name: JobText(name, sql, file)}, dry_run=True)
        return _raised(self.change(request)[name])

    def sealed_form(self, text: str) -> str:
        """Returns a text of a job as the log keeps it: with marks in the place of passwords."""
        return self._registry.sealing.form(text)

    def rollback(
        self,
        name: str,
        version: int,
        origin: Origin = Origin.SDK,
        by: Principal = TRUSTED,
        *,
        dry_run: bool = False,
        expected: Expected | None = None,
    ) -> Outcome:
        """Submits an old version again, as a new one that is live, with the users' modules that it
        had. A rule has its versions together with its shadows. `expected`: the version that the job
        must have now."""
        rule = rule_of(name)
        texts = {rule: text_of(self.log.version(rule, version))}
        wanted = {} if expected is None else {rule: expected}
        request = Request(origin, texts, by=by, live=True, dry_run=dry_run, expected=wanted)
        return _raised(self.change(request)[rule])

    def promote(
        self,
        name: str,
        origin: Origin = Origin.SDK,
        by: Principal = TRUSTED,
        reason: str = "",
        *,
        dry_run: bool = False,
        expected: Expected | None = None,
    ) -> Outcome:
        """Lets the shadow of a rule take the place of its live version, with its state. `reason`:
        what the history says of it, if not who asked; `expected`: the version that the rule must
        have now."""
        rule = rule_of(name)
        live = self.log.jobs.get(rule)
        if live and shadow_of(rule) not in self.log.jobs and self._registry.version(live).fate:
            return Outcome(rule, "unchanged", live.version)  # it is asked again
        shadow = shadow_job(rule, self.log.jobs)
        text = text_of(self.log.version(rule, shadow.version))
        texts = {rule: replace(text, promotes=shadow.version)}
        wanted = {} if expected is None else {rule: expected}
        request = Request(origin, texts, by=by, reason=reason, dry_run=dry_run, expected=wanted)
        return _raised(self.change(request)[rule])

    def stop_job(self, name: str) -> Outcome:
        """Stops a job: it leaves its graph, and stays in the registry with its text."""
        with self._steps.leaving((name,)), self._failures.stopping(name):
            return self._thread.run(lambda: self._lifecycle.stop(self.job(name)))

    def save_job(self, name: str, folder: str | None = None, *, stop: bool = False) -> Outcome:
        """Writes a savepoint of a running job, below `folder` or where the settings say; with
        `stop` the job stops with it."""
        return self._thread.run(lambda: self._lifecycle.save(name, folder, stop=stop))

    def save_prepared(self, name: str, folder: str | None = None) -> Outcome:
        """Returns what a savepoint of a job would come to, without writing it."""
        return self._thread.run(lambda: self._lifecycle.save_prepared(name, folder))

    def drain_job(self, name: str, folder: str | None = None) -> Outcome:
        """Drains a running job: its sources end, all its windows fire, and it stops with a
        savepoint below `folder` or where the settings say."""
        return self._thread.run(lambda: self._lifecycle.drain(name, folder))

    def start_job(
        self,
        name: str,
        savepoint: str | None = None,
        begin: str | int | None = None,
        by: Principal = TRUSTED,
    ) -> Outcome:
        """Starts a stopped or failed job: from a savepoint, else where it was; with `begin` as a
        new job, at its 'configured' offsets, or those of 'earliest', 'latest' or a time (ms)."""

        def start() -> Outcome:
            self._changes.check_start(self.job(name), by)
            return self._lifecycle.start(self.job(name), savepoint, begin)

        self._failures.forget([name])
        return self._thread.run(start)

    def isolate(self, name: str) -> Outcome:
        """Moves a job with its state into a graph of its own, where it stays until it is merged."""
        return self._thread.run(lambda: self._moves.isolate(name))

    def move(self, name: str, target: str) -> Outcome:
        """Moves a job with its state to 'embedded' or 'spark', where it stays over new versions
        whose texts say nothing else."""
        if target == "spark":
            self._spark.session()  # here, as it takes long: other changes do not wait for it
        return self._thread.run(lambda: self._moves.move(name, target))

    def merge(self, name: str) -> Outcome:
        """Moves a job with its state into the shared graph, once both have read to the same
        offsets."""
        return self._thread.run(lambda: self._moves.merge(name))

    def reload_lookups(self, name: str) -> list[str]:
        """Has the tables read again in which a job looks rows up and that are held as a whole,
        beside the stream; returns their names. JobError where there is no such job."""
        return self.progress.reload_lookups(self.job(name))

    def replay(
        self,
        name: str,
        ids: Sequence[int] | None = None,
        limit: int = MAX_LETTERS,
        *,
        dry_run: bool = False,
    ) -> Replayed:
        """Replays the records of a job's dead letters (all, or some by number), once each; in a
        `dry_run` tells which."""
        return self._thread.run(lambda: self._replays.replay(name, ids, limit, dry_run=dry_run))

    def statement_of(self, letter: DeadLetter) -> tuple[Position | None, str | None]:
        """Returns the position of the expression that a letter names, in the text of the job's
        version as it is shown, and that text; None for the letter of a table."""
        version = self.log.versions_of(letter.job).get(letter.version)
        if version is None:
            return None, None
        position = self._thread.run(lambda: self._replays.position_of(letter))
        return shown(version.sql, position)

    # ---- views -----------------------------------------------------------------------------------

    @property
    def log(self) -> JobLog:
        return self._registry.log

    @property
    def catalog(self) -> Catalog:
        """Tables, views and functions that jobs define for all."""
        return self._registry.catalog

    @property
    def library(self) -> Library:
        """The functions of users."""
        return self._registry.library

    @property
    def graph(self) -> RunningGraph:
        """The main graph."""
        return self.graphs.main

    def jobs(self) -> list[Job]:
        """Returns all jobs by name."""
        return self._registry.jobs()

    def job(self, name: str) -> Job:
        """Returns a job. Raises JobError if there is none."""
        return self._registry.job(name)

    def history(self, name: str) -> list[JobVersion]:
        """Returns all versions of a job, also a removed one, oldest first."""
        if not self.log.versions_of(name):
            hint = did_you_mean(name, self.log.jobs) or "'sql jobs' lists all"
            raise JobError(f"job '{name}' does not exist and never did", hint=hint)
        return [v for _, v in sorted(self.log.versions_of(name).items())]

    def difference(self, name: str) -> Difference:
        """Returns what the shadow of a rule would have added to its tables since it began, and left
        out. Raises JobError if it has none."""
        shadow = shadow_job(rule_of(name), self.log.jobs)
        graph, ends = self.graphs.of(shadow.name), None
        if shadow.state is JobState.RUNNING and not graph.distributed:
            with suppress(ServiceError):  # it is busy: the last epoch may be there by half
                ends = graph.call(lambda: ends_of(self.broker), timeout=5)
        return difference(self.broker, self._registry.version(shadow), ends)

    def explain(self, name: str) -> str:
        """Returns the plan of a job's version after each step, and what it shares with others."""
        return self._explanations.text(self.job(name))

    def explain_json(self, name: str) -> Json:
        """Returns the plan of a job's version for programs."""
        return self._explanations.json(self.job(name))

    def spark(self) -> SparkView | None:
        """Returns how Spark does; None if it has not started."""
        return self._spark.view()

    def counts(self) -> dict[str, JobCounts]:
        """Returns what each job has done since it was first submitted, over restarts, versions and
        moves between graphs. A shadow has nothing of those before it."""
        counts = self.graphs.counts()
        return {
            name: counts.get(name, NOTHING).of_shadow(job.version)
            if is_shadow(name)
            else counts.get(name, NOTHING)
            for name, job in list(self.log.jobs.items())
        }

    def costs_by_job(self) -> dict[str, JobCost]:
        """Returns what each job has cost since the server started, over moves between graphs."""
        costs = self.graphs.totals().costs
        return {name: costs.get(name, FREE) for name in list(self.log.jobs)}

    def rows_by_job(self) -> Counter[str]:
        """Returns the rows that each job has written to sinks, if any."""
        return Counter({name: c.rows for name, c in self.counts().items() if c.rows})

    def families_of(self, job: str) -> list[FamilyView]:
        """Returns the families in which a job runs, if in any."""
        return families_of(job, (g.executor.run for g in list(self.graphs.by_name.values())))

    def restarts_by_job(self) -> Counter[str]:
        """Returns how often jobs were started again after a failure since the server started."""
        return self._restarts.made.copy()

    def planned(self) -> Counter[str]:
        """Returns how many plans came from the cache (hits) or were made (misses)."""
        return Counter(self._registry.planner.counters)

    def hints(self) -> dict[str, str]:
        """Returns what is perhaps wrong with running jobs, by name."""
        graphs = list(self.graphs.by_name.values())
        modules = module_hints(self.jobs(), self.log, self.library)
        slow = step_hints(graphs, self.slow_steps())
        told = modules | dict(self.budgets.over) | topic_hints(graphs, self.broker)
        return told | table_hints(graphs) | slow

    def slow_step_counts(self) -> dict[str, int]:
        """Returns how many steps of each graph took longer than a second."""
        return self._steps.slow_steps() | self.graphs.slow_step_counts()

    def slow_steps(self) -> list[StepView]:
        """Returns the steps of graphs that run for longer than a second now, by graph."""
        steps = [*self._steps.slow(), *self.graphs.long_steps()]
        return sorted(steps, key=lambda step: step.graph)

    def works(self) -> bool:
        """Returns whether a graph is in a step now."""
        return self._steps.some()

    def rows_of(self, name: str) -> int:
        return self.rows_by_job()[name]

    @property
    def ready(self) -> bool:
        return self.graphs.alive and not self._failures.closed.is_set()

    def now_ms(self) -> int:
        return self._clock()


def _raised(outcome: Outcome) -> Outcome:
    if outcome.status == "refused" and outcome.error is not None:
        raise outcome.error
    return outcome
