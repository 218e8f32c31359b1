"""The engine: jobs come, change and go while the graphs run.

Every change takes the same steps, whoever asks for it:

    text -> parse -> bind -> optimize -> merge (into the graph) -> lower -> prepare (compile) ->
    switch (between two epochs)

All but the switch is done by one thread beside the stream (`job_changes.py`, `deploying.py`,
`job_lifecycle.py`), one change after the other.
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from parser.errors import JobError, Position, ServiceError, SqlError
from planner.catalog import Catalog
from planner.logical import AskedScan
from planner.settings import FILTER_PUSH_DOWN
from sqlengine.access.actor import acting, present_actor
from sqlengine.access.identity import OPEN, Access
from sqlengine.access.principals import TRUSTED, Principal
from sqlengine.access.shadow_names import is_shadow, rule_of, shadow_of
from sqlengine.cluster.instance_groups import InstanceGroups
from sqlengine.config import Config, Target
from sqlengine.connectors.boundary.openings import Openings, StillOpening
from sqlengine.connectors.environment import NO_CALLABLES, Callables
from sqlengine.connectors.folder_name import name_writers
from sqlengine.connectors.memory.tables import Memory
from sqlengine.connectors.receivers.service import Receivers
from sqlengine.engine.dead_letters import DeadLetter, DeadLetterQueue
from sqlengine.engine.expected_versions import Expected
from sqlengine.engine.graph_manager import GraphManager
from sqlengine.engine.isolation import Isolation
from sqlengine.engine.job_changes import JobChanges
from sqlengine.engine.job_failures import JobFailures
from sqlengine.engine.keeping import Keeping
from sqlengine.engine.migration import Migrations
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
from sqlengine.engine.views.family_views import FamilyView, families_of
from sqlengine.engine.views.module_hints import module_hints
from sqlengine.engine.views.progress_views import ProgressViews
from sqlengine.engine.views.spark_views import stages_of_job
from sqlengine.engine.views.state_views import StateViews
from sqlengine.engine.views.step_hints import step_hints
from sqlengine.engine.views.table_hints import table_hints
from sqlengine.engine.views.topic_hints import topic_hints
from sqlengine.engine.watch.budgets import Budgets
from sqlengine.engine.watch.restarts import Restarts
from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.dimensions.asking import TableAsker
from sqlengine.executors.epochs import has_epochs
from sqlengine.executors.failures import GraphBroken, LastingFailure
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
from sqlengine.jobs.explanation import Json, explain_sinks, explain_sinks_json
from sqlengine.jobs.job import MAIN, Job, JobState, JobVersion, Origin
from sqlengine.jobs.log import JobLog
from sqlengine.jobs.planning import JobText, PlannedJob, plan_job
from sqlengine.jobs.sealing import shown
from sqlengine.jobs.targets import TARGET
from sqlengine.jobs.trail import Trail
from sqlengine.jobs.workers import INLINE
from sqlengine.machine import THIS, Machine
from sqlengine.registry import Registry, text_of
from sqlengine.snapshots.migrations import MigrationStore
from sqlengine.system.memory import settle

T = TypeVar("T")
# Seconds that running steps have to end when the engine is closed.
_STOP_GRACE_S: Final = 3.0
log = logging.getLogger("sqlengine")


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
        self._trail = trail
        self._callables, self.memory = callables, memory
        self._openings = openings or Openings(machine.threads.lanes(), config.connector_timeout_s)
        self.broker = open_broker(config, machine)
        self.receivers = Receivers(self.broker, machine.clock)
        try:
            name_writers(self.broker, used=has_epochs(self.broker))
            self._open(config, machine, steps, on_jobs_known)
        except BaseException:
            self.receivers.stop()
            self.broker.close()
            raise

    def _open(
        self,
        config: Config,
        machine: Machine,
        steps: Steps | None,
        on_jobs_known: Callable[[Engine], None],
    ) -> None:
        self._clock, self._threads, self._settled = machine.clock, machine.threads, False
        self._thread = machine.threads.serial_executor("changes")
        self._registry = Registry(self.broker, config, machine, steps, self.access)
        trail = self._trail()
        if trail is not None:
            trail.begin(self.log)
        self._steps = self._registry.steps
        self._failures = JobFailures(self._registry, self._thread.submit, machine.threads)
        self._spark = machine.spark(config)
        if config.target == "spark" or config.places_on_spark:
            self._spark.session()  # what keeps it from starting is known before anything else
        store = MigrationStore(self.broker, machine.clock, sync=config.fsync == "interval")

        def asker(scan: AskedScan) -> TableAsker:
            return TableAsker(scan, TableAccess(host).environment("look-ups"))

        host = GraphHost(
            config,
            machine,
            self.broker,
            OperatorFactory(
                machine.rules(config),
                any_times=True,
                families=config.families,
                dimensions=config.dimensions,
                asker=asker,
            ),
            open_stores(self.broker, config, machine),
            self._registry.fails_on_error,
            self._failures.report,
            self._thread.submit,
            self._registry.memory,
            self._steps,
            store.get,
            store.replace,
            self._callables,
            self._openings,
            self._spark,
            self.receivers,
            self.memory,
        )
        self.instances = InstanceGroups(self.broker, config, machine, self._spark)
        self.graphs = GraphManager(host, self._registry.plans_of, self.instances)
        self.graphs.watch(OwedRows(self._registry.log.jobs.values, self._registry.plans_of, store))
        self.savepoints = Savepoints(self._registry, self.graphs, config, machine.disk)
        self.state = StateViews(self._registry, self.graphs)
        self.costs = CostViews(self.graphs, self.costs_by_job, self.counts)
        self.progress = ProgressViews(self._registry, self.graphs, config.settings)
        self._migrations = Migrations(self._registry, self.graphs, store)
        keeping = Keeping(self._registry, self.graphs, store)
        self._changes = JobChanges(
            self._registry, self.graphs, self.savepoints, self._migrations, keeping
        )
        self._lifecycle = self._changes.lifecycle
        self.canaries = Canaries(self._registry, self._changes.change, machine.threads.now)
        self._failures.open(self.graphs, self._lifecycle)
        self._restarts = Restarts(self._registry, self._lifecycle, self._failures.forget)
        self._reopening = Reopening(self.graphs.unavailable, self._await_spark, self._reopen)
        self._isolation = Isolation(
            self._registry, self.graphs, self._migrations, self._lifecycle, machine.threads.now
        )
        self.budgets = Budgets(self._registry, self.graphs, self._lifecycle, self.costs_by_job)
        self.dead_letters = DeadLetterQueue(self.broker)
        self._replays = Replays(self._registry, self.graphs, self.dead_letters)
        POOL.join(self, self._failures.report_function)
        self._steps.start(machine.threads, self._failures.give_up)
        on_jobs_known(self)
        try:
            self._recover()
        except BaseException:
            self._steps.close_watch()
            self.graphs.abandon()
            self._spark.close()
            self._thread.shutdown()
            POOL.leave(self)
            raise

    def start(self) -> None:
        """Starts the graphs and the isolation of jobs."""
        # The graph's thread releases the interpreter's lock in every kernel. Beside a change, which
        # computes in Python, it waits for one switch interval to have it back: 5 ms by default.
        # Below 0.1 ms switching itself costs.
        sys.setswitchinterval(0.0001)
        settle()
        self.graphs.start()
        self._restarts.start(self._threads, self._thread.submit)
        self._reopening.start(self._threads, self._thread.submit)
        self.canaries.start(self._threads, self._thread.submit)
        self.budgets.start(self._threads, self._thread.submit)
        if self.config.isolation:
            self._isolation.start(self._threads, self._thread.submit)

    def close(self) -> None:
        """Ends the running epochs, writes checkpoints, releases the folder."""
        if self._failures.closed.is_set():
            return
        self._failures.closed.set()
        self._isolation.stop()
        self.budgets.stop()
        self._restarts.stop()
        self._reopening.stop()
        self.canaries.stop()
        self._openings.stop()
        # A running step may end, but not for long: the next start repeats what is cut short.
        ending = self._threads.later(_STOP_GRACE_S, self._steps.stop)
        try:
            self._thread.shutdown(wait=True)
            self.graphs.close()
        finally:
            ending.cancel()
            self._steps.close_watch()
            self._spark.close()
            POOL.leave(self)
            self.receivers.stop()
            self.broker.close()

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
                outcomes = self._changed(request)
        finally:
            self._registry.planner.forget_ahead(request.upserts)
        if len(outcomes) > INLINE:
            settle()
        self._failures.forget(() if request.dry_run else outcomes)
        return outcomes

    def _changed(self, request: Request) -> dict[str, Outcome]:
        """Makes the change, and makes it again for jobs whose tables take long to open."""
        outcomes = self._serially(lambda: self._changes.change(request))
        while True:
            slow = {n: e for n, o in outcomes.items() if isinstance(e := o.error, StillOpening)}
            if not slow or not all(e.wait(self._openings.timeout_s) for e in slow.values()):
                return outcomes
            again = request.only(slow)
            outcomes |= self._serially(partial(self._changes.change, again))

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
            return self._serially(lambda: self._lifecycle.stop(self.job(name)))

    def save_job(self, name: str, folder: str | None = None, *, stop: bool = False) -> Outcome:
        """Writes a savepoint of a running job, below `folder` or where the settings say; with
        `stop` the job stops with it."""
        return self._serially(lambda: self._lifecycle.save(name, folder, stop=stop))

    def save_prepared(self, name: str, folder: str | None = None) -> Outcome:
        """Returns what a savepoint of a job would come to, without writing it."""
        return self._serially(lambda: self._lifecycle.save_prepared(name, folder))

    def drain_job(self, name: str, folder: str | None = None) -> Outcome:
        """Drains a running job: its sources end, all its windows fire, and it stops with a
        savepoint below `folder` or where the settings say."""
        return self._serially(lambda: self._lifecycle.drain(name, folder))

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
        return self._serially(start)

    def isolate(self, name: str) -> Outcome:
        """Moves a job with its state into a graph of its own, where it stays until it is merged."""
        return self._serially(lambda: self._lifecycle.isolate(name))

    def move(self, name: str, target: str) -> Outcome:
        """Moves a job with its state to 'embedded' or 'spark', where it stays over new versions
        whose texts say nothing else."""
        if target == "spark":
            self._spark.session()  # here, as it takes long: other changes do not wait for it
        return self._serially(lambda: self._lifecycle.move(name, target))

    def merge(self, name: str) -> Outcome:
        """Moves a job with its state into the shared graph, once both have read to the same
        offsets."""
        return self._serially(lambda: self._lifecycle.merge(name))

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
        return self._serially(lambda: self._replays.replay(name, ids, limit, dry_run=dry_run))

    def statement_of(self, letter: DeadLetter) -> tuple[Position | None, str | None]:
        """Returns the position of the expression that a letter names, in the text of the job's
        version as it is shown, and that text; None for the letter of a table."""
        version = self.log.versions_of(letter.job).get(letter.version)
        if version is None:
            return None, None
        position = self._serially(lambda: self._replays.position_of(letter))
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
        planned = self._traced(name)
        graph, once = self.graphs.of(name), self.graphs.delivers_once
        # That of the server: the scan is one for all jobs.
        filters = self.config.settings.get(FILTER_PUSH_DOWN, "true")
        text = explain_sinks(
            planned.sinks,
            planned.traces,
            graph.runner.graph,
            name,
            {**planned.settings, FILTER_PUSH_DOWN: filters},
            once=once,
            stages=stages_of_job(graph, name),
            families=graph.executor.run,
        )
        job = self.job(name)
        if not self.config.instances and job.graph == MAIN and self.config.target == "embedded":
            return text
        return (
            f"{text}\n\n== where it runs ==\n{self.graphs.describe_placement(job, planned.sinks)}"
        )

    def explain_json(self, name: str) -> Json:
        """Returns the plan of a job's version for programs."""
        planned = self._traced(name)
        graph = self.graphs.of(name)
        explained = explain_sinks_json(
            planned.sinks,
            planned.traces,
            graph.runner.graph,
            name,
            stages_of_job(graph, name),
            graph.executor.run,
        )
        return {"delivery": self.config.delivery, **explained}

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

    # ---- private ---------------------------------------------------------------------------------

    def _recover(self) -> None:
        self._registry.recover()
        # Nobody waits here for Spark: graphs that need it stand still until it has started.
        with self._spark.unstarted():
            self.graphs.recover(j.graph for j in self.jobs() if j.state is JobState.RUNNING)
        if not self.graphs.broken:
            self._settle()
        self._registry.recovered()

    def _settle(self) -> None:
        """Brings the job log to what the graphs have recovered; once more when all have."""
        standing = self.graphs.unavailable()
        if not standing:
            try:
                self._changes.pending.finish()
            except SqlError as error:
                log.error("a change that was interrupted cannot be made any more: %s", error)
                self.log.drop_pending(self._clock())
        self._reconcile(self._migrations.departed())
        self.graphs.retire_idle()
        self._settled = not standing
        if self._settled:
            self._migrations.remove_obsolete()
            self.savepoints.remove_unfinished()

    def _reconcile(self, departed: Mapping[str, str]) -> None:
        """Writes down which jobs run, and which of them recoveries have lost; `departed`: the keys
        of what migrations keep of jobs."""
        lost = self.graphs.lost()
        self._registry.reconcile(self.graphs.running(), lost, self.graphs.unavailable())
        lasting = {name for name, error in lost.items() if isinstance(error, LastingFailure)}
        self._lifecycle.keep_departed({**departed, **self.graphs.taken_out()}, lasting)

    def _await_spark(self) -> None:
        """Raises SqlError while graphs stand still for which Spark is not there."""
        standing = map(self.graphs.by_name.get, self.graphs.unavailable())
        if any(g is not None and g.executor.in_tasks for g in standing):
            self._spark.session()

    def _reopen(self) -> None:
        """Recovers the graphs that stood still for want of Spark, or to take a family apart (the
        thread of changes)."""
        self.graphs.reopen_unavailable()
        if self._settled:
            self._reconcile({})
        elif not self.graphs.unavailable():
            self._settle()

    def _traced(self, name: str) -> PlannedJob:
        job = self.job(name)
        registry = self._registry
        planned = plan_job(
            replace(registry.text(job), name=rule_of(name)),
            registry.catalog_for({name}),
            self.config.settings,
            registry.library,
            traced=True,
        )
        # What runs of a shadow ends elsewhere than its text says.
        return replace(registry.plan_of(job), traces=planned.traces) if is_shadow(name) else planned

    def _serially(self, work: Callable[[], T]) -> T:
        """Runs `work` in the thread that makes changes, and waits for its result. Other changes go
        on while a table is opened that takes long."""
        while True:
            try:
                return self._once(work)
            except StillOpening as error:
                if not error.wait(self._openings.timeout_s):
                    raise

    def _once(self, asked: Callable[[], T]) -> T:
        actor = present_actor()

        def work() -> T:
            with acting(actor):
                return asked()

        def work_and_tidy() -> T:
            try:
                self._failures.settle()
                try:
                    return work()
                except GraphBroken:
                    if not self._failures.waiting and not self._failures.restore_for_leaving():
                        raise
                    # A step was ended while the work waited for it: it left no trace, and the
                    # graph is restored first.
                    self._failures.settle()
                    return work()
            finally:
                if POOL.hosts():  # else spare the pass over all jobs
                    POOL.keep(self, self._registry.modules())

        return self._thread.submit(work_and_tidy).result()


def _raised(outcome: Outcome) -> Outcome:
    if outcome.status == "refused" and outcome.error is not None:
        raise outcome.error
    return outcome
