"""The parts of an engine: which there are, and in which order they open and close."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Final, Self

from planner.logical import AskedScan
from sqlengine.access.identity import OPEN, Access
from sqlengine.access.shadow_names import is_shadow
from sqlengine.cluster.instance_groups import InstanceGroups
from sqlengine.config import Config
from sqlengine.connectors.boundary.openings import Openings
from sqlengine.connectors.environment import NO_CALLABLES, Callables
from sqlengine.connectors.folder_name import name_writers
from sqlengine.connectors.memory.tables import Memory
from sqlengine.connectors.receivers.service import Receivers
from sqlengine.engine.changes_thread import ChangesThread
from sqlengine.engine.dead_letters import DeadLetterQueue
from sqlengine.engine.deploying.job_placement import JobPlacement
from sqlengine.engine.graph_manager import GraphManager
from sqlengine.engine.job_changes import JobChanges
from sqlengine.engine.job_failures import JobFailures
from sqlengine.engine.migration.keeping import Keeping
from sqlengine.engine.migration.migrations import Migrations
from sqlengine.engine.recovery import Recovery
from sqlengine.engine.replaying import Replays
from sqlengine.engine.savepoints import Savepoints
from sqlengine.engine.shadows.canaries import Canaries
from sqlengine.engine.storage import open_broker, open_stores
from sqlengine.engine.table_access import TableAccess
from sqlengine.engine.views.cost_views import CostViews
from sqlengine.engine.views.explanations import Explanations
from sqlengine.engine.views.progress_views import ProgressViews
from sqlengine.engine.views.state_views import StateViews
from sqlengine.engine.watch.budgets import Budgets
from sqlengine.engine.watch.isolation import Isolation
from sqlengine.engine.watch.restarts import Restarts
from sqlengine.engine.watch.watch import Watch
from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.dimensions.asking import TableAsker
from sqlengine.executors.epochs import has_epochs
from sqlengine.executors.job_counts import NOTHING, JobCounts
from sqlengine.executors.measures.job_costs import FREE, JobCost
from sqlengine.executors.steps.limits import Steps
from sqlengine.functions.pool import POOL
from sqlengine.graphs.host import GraphHost
from sqlengine.graphs.owed_rows import OwedRows
from sqlengine.graphs.reopening import Reopening
from sqlengine.jobs.log import JobLog
from sqlengine.jobs.trail import Trail
from sqlengine.machine import THIS, Machine
from sqlengine.registry import Registry
from sqlengine.snapshots.migrations import MigrationStore
from sqlengine.system.memory import settle

# Seconds that running steps have to end when the engine is closed.
_STOP_GRACE_S: Final = 3.0


class AssembledEngine:
    """The parts of an engine, how they know each other, and how they are opened and closed.

    Opening it recovers what was there; `start` begins to run. Raises DataFolderLocked if another
    process has the folder."""

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
        on_jobs_known: Callable[[Self], None] = lambda engine: None,
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

    def _recover(self, on_jobs_known: Callable[[Self], None]) -> None:
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

    @property
    def log(self) -> JobLog:
        return self._registry.log

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
