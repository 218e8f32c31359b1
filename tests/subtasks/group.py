"""A distributed graph in one thread: its subtasks over one broker, stepped, killed and moved as a test
says. Broker, logs, checkpoints, sources and sinks are the real ones; the clock goes by steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import pytest

from parser.errors import SqlError
from planner.catalog import Catalog
from planner.settings import MINI_BATCH
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.broker.ownership import Fence
from sqlengine.cluster.subtask import Subtask, open_subtask
from sqlengine.config import Config
from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.epochs import LoggedChange
from sqlengine.executors.memory_limits import MemoryLimits
from sqlengine.executors.steps.limits import Steps
from sqlengine.graphs.host import GraphHost
from sqlengine.graphs.opening import open_graph
from sqlengine.graphs.running import RunningGraph
from sqlengine.jobs.planning import JobText, PlannedJob, plan_job
from sqlengine.machine import Machine
from sqlengine.snapshots.job_snapshot import JobSnapshot
from sqlengine.state.store import CheckpointStore, MemoryStore
from sqlengine.system.durability import Checkpoints
from sqlengine.system.threads import THREADS, Threads

START = 1_700_000_000_000
NEVER = 1 << 60
TICK_MS = 1_009
# Who reads so long without an end reads for ever.
STEPS = 20_000


class Killed(BaseException):
    """The subtask ends here."""


class Failed(AssertionError):
    """The job fails."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass
class Stores:
    """Checkpoints that outlive those who made them."""

    held: dict[str, MemoryStore] = field(default_factory=dict)

    def names(self) -> list[str]:
        return sorted(self.held)

    def open(self, name: str) -> CheckpointStore:
        return self.held.setdefault(name, MemoryStore())

    def remove(self, name: str) -> None:
        self.held.pop(name, None)


@dataclass
class Group:
    """The subtasks of a graph. `jobs` are the versions of jobs as they were planned; `acts`:
    what was done to subtasks."""

    broker: EmbeddedBroker
    parallelism: int = 3
    rows_per_read: int = 2
    now: int = START
    open: dict[int, Subtask] = field(default_factory=dict)
    plans: dict[tuple[str, int], PlannedJob] = field(default_factory=dict)
    stores: Stores = field(default_factory=Stores)
    steps: int = 0
    threads: Threads = THREADS
    checkpoints: Checkpoints = "rocksdb"
    graph: str = "g"
    snapshots: dict[str, JobSnapshot] = field(default_factory=dict)
    tick_ms: int = TICK_MS
    acts: Counter[str] = field(default_factory=Counter)

    def host(self) -> GraphHost:
        config = Config(
            rows_per_read=self.rows_per_read,
            checkpoints=self.checkpoints,
            checkpoint_rows=NEVER,
            checkpoint_ms=NEVER,
        )

        def on_failure(jobs: frozenset[str], reason: str, *, lasting: bool = False) -> None:
            raise Failed(f"{sorted(jobs)} fail: {reason}")

        return GraphHost(
            config,
            Machine(clock=lambda: self.now, threads=self.threads),
            self.broker,
            OperatorFactory(),
            self.stores,
            lambda job, version: False,
            on_failure,
            lambda work, *rest: work(*rest),
            MemoryLimits(),
            Steps(None, lambda: self.now / 1000),
            self.snapshots.get,
        )

    def plan_of(self, jobs: Mapping[str, int]) -> dict[str, PlannedJob | SqlError]:
        return {name: self.plans[name, version] for name, version in jobs.items()}

    def start(self, fence: Callable[[], Fence | None] = lambda: None) -> None:
        for index in range(self.parallelism):
            self.open_subtask(index, fence)

    def open_subtask(self, index: int, fence: Callable[[], Fence | None] = lambda: None) -> Subtask:
        subtask = open_subtask(
            self.graph, index, self.parallelism, self.host(), self.plan_of, fence
        )
        self.open[index] = subtask
        return subtask

    def submit(
        self, job: PlannedJob, version: int = 1, among: Callable[[], object] = lambda: None
    ) -> None:
        """Every subtask makes the change ready, then each switches; `among` comes between two of
        them."""
        self.plans[job.name, version] = job
        self._change({job.name: job}, {job.name: version}, among)

    def take(self, job: PlannedJob, migration: str) -> None:
        """Every subtask takes up its share of what a job has."""
        self.plans[job.name, 1] = job
        for subtask in self.open.values():
            graph = subtask.runner.graph
            logged = LoggedChange(graph.version + 1, {job.name: 1}, {}, {}, migration)
            change = subtask.graph.prepare_logged_change(graph, logged)
            subtask.graph.arrivals.check(change, migration)
            assert change.restored is not None
            subtask.switch(replace(change, starts=change.restored.positions))

    def remove(self, name: str, among: Callable[[], object] = lambda: None) -> None:
        self._change({}, {name: 0}, among)

    def _change(
        self, plans: Mapping[str, PlannedJob], jobs: Mapping[str, int], among: Callable[[], object]
    ) -> None:
        ready = [(p, p.prepare(p.runner.graph, plans, jobs, {})) for p in self.open.values()]
        for subtask, change in ready:
            subtask.switch(change)
            among()

    def step(self, index: int) -> bool:
        """One step of a subtask; what it raises is raised here."""
        subtask = self.open[index]
        self.steps += 1
        assert self.steps < STEPS, "it never ends"
        self.now += self.tick_ms
        busy = subtask.step()
        assert subtask.fenced or subtask.loop.problem is None, subtask.loop.problem
        return busy

    def kill(self, index: int) -> None:
        """Nothing is left of it but what is on disk; somebody opens it again."""
        self.open.pop(index).abandon()
        self.open_subtask(index)

    def kill_in_step(self, index: int, chance: Random) -> None:
        """It dies on its way through an epoch: behind its record, before or between what goes
        out."""
        sinks = list(self.open[index].runner.outputs.running.values())
        failing = chance.choice(sinks)
        original_commit = failing.commit

        def commit(epoch: int) -> int:
            if chance.random() < 0.5:  # all of it is out, and nobody was told
                original_commit(epoch)
            raise Killed

        with pytest.MonkeyPatch.context() as patch, suppress(Killed):
            patch.setattr(failing, "commit", commit)
            self.step(index)
        self.open[index].runner.broken = True
        self.kill(index)

    def move(self, index: int) -> None:
        """Closed in good order and opened by somebody else."""
        self.open.pop(index).close()
        self.open_subtask(index)

    def run(self, chance: Random | None = None, disturbance: float = 0.0) -> None:
        """Until nobody has anything to do. With `unrest` subtasks are killed and moved on the way."""
        quiet = 0
        while quiet < 2:
            order = list(range(self.parallelism))
            if chance is not None:
                chance.shuffle(order)
            busy = [self._turn(i, chance, disturbance) for i in order]
            quiet = 0 if any(busy) else quiet + 1

    def _turn(self, index: int, chance: Random | None, disturbance: float) -> bool:
        if chance is None or chance.random() >= disturbance:
            return self.step(index)
        self.act(index, chance.choice(("kill", "in step", "move", "checkpoint")), chance)
        return True

    def act(self, index: int, action: str, chance: Random) -> None:
        self.acts[action] += 1
        match action:
            case "step":
                self.step(index)
            case "kill":
                self.kill(index)
            case "in step":
                self.kill_in_step(index, chance)
            case "move":
                self.move(index)
            case "checkpoint":
                self.open[index].runner.checkpoint(wait=True)

    def close(self) -> None:
        for subtask in self.open.values():
            subtask.close()
        self.open = {}

    def counted(self, name: str) -> int:
        """A counter of all operators that run now."""
        nodes = (n for p in self.open.values() for n in p.runner.executor.running.values())
        return sum(n.context.counters[name] for n in nodes)


def run_locally(
    group: Group, job: PlannedJob, name: str = "alone", takes: JobSnapshot | None = None
) -> RunningGraph:
    """The same job in a graph that is not distributed, to its end; with what it `takes` up if that is
    given."""
    group.plans[job.name, 1] = job
    graph = open_graph(name, group.host(), group.plan_of)
    if takes is None:
        graph.switch(graph.change(graph.runner.graph, {job.name: job}, {job.name: 1}, {}))
    else:
        graph.arrivals.attach(
            graph.arrivals.prepare({job.name: job}, {job.name: 1}), takes, "handover"
        )
    return to_its_end(group, graph)


def to_its_end(group: Group, graph: RunningGraph) -> RunningGraph:
    quiet = 0
    while quiet < 2:
        group.now += group.tick_ms
        quiet = 0 if graph.loop.turn() else quiet + 1
        assert graph.loop.problem is None, graph.loop.problem
    return graph


def planned(name: str, sql: str, settings: Mapping[str, str] | None = None) -> PlannedJob:
    """As a server plans it."""
    return plan_job(JobText(name, sql), Catalog(), {MINI_BATCH: "true", **(settings or {})})


@contextmanager
def broker_in(folder: Path) -> Iterator[EmbeddedBroker]:
    broker = EmbeddedBroker(folder / "topics", fsync="none", clock=lambda: START)
    try:
        yield broker
    finally:
        broker.close()


def values_of(broker: EmbeddedBroker, topic: str) -> list[bytes]:
    """All records of a topic, shard by shard."""
    found: list[bytes] = []
    for shard in range(broker.topic(topic).shards):
        offset = broker.begin_offset(topic, shard)
        while (records := broker.read(topic, shard, offset)) is not None:
            found += records.values.to_pylist()
            offset = records.next_offset
    return found
