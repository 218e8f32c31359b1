"""The instances of a server: a group of processes for each of its distributed graphs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import msgspec

from sqlengine.broker.remote.wire import Served
from sqlengine.cluster.control_log import SubtaskReport
from sqlengine.cluster.distributed_graph import DistributedGraph
from sqlengine.cluster.placement import LocalProcesses, Placement
from sqlengine.cluster.spark_placement import SparkTasks
from sqlengine.cluster.supervisor import Child, ProcessSupervisor
from sqlengine.config import Config
from sqlengine.executors.spark.session import Spark
from sqlengine.jobs.isolation_settings import group_of
from sqlengine.machine import Machine

# The jobs of an isolation group fail once its process has died this often in a row, each time soon
# after its start.
_MAX_DEATHS = 5


class InstanceView(msgspec.Struct, frozen=True):
    """An instance as the REST API shows it.

    `state`: starting, running, silent (no longer a member of its group) or dead; `rows`: read
    since it started; `lag`: unread records of the topics that its subtasks read; `memory`:
    resident bytes; `waiting`: why subtasks of it read no sources for now; `host`: where it runs,
    None for the server's. The API calls the subtasks parts."""

    graph: str
    instance: str
    state: str
    pid: int | None
    subtasks: tuple[int, ...] = msgspec.field(name="parts")
    rows: int
    rows_per_s: float
    lag: int
    memory: int
    cpu_s: float
    since_ms: int
    restarts: int
    problem: str | None
    waiting: tuple[str, ...]
    host: str | None = None


class InstanceGroups:
    """Starts and stops the processes of distributed graphs. They reach the server's broker over a
    socket.

    The shared graph gets as many processes as configured, up to its parallelism, on this machine or
    in tasks of Spark. Isolation groups have theirs on this machine."""

    def __init__(self, broker: Served, config: Config, machine: Machine, spark: Spark) -> None:
        """ServiceError where instances cannot run as configured."""
        self._broker = broker
        self._config = config
        self._machine = machine
        self._local: LocalProcesses | None = None
        self._placed = (
            SparkTasks(broker, config, machine, spark) if config.places_on_spark else None
        )
        self._supervisors: dict[str, ProcessSupervisor] = {}

    def run(self, graph: DistributedGraph) -> None:
        """Starts the processes of a distributed graph: at most one for each subtask."""
        config, shared = self._config, group_of(graph.name) is None
        count = min(max(config.instances, 1), graph.parallelism)
        supervisor = ProcessSupervisor(
            graph,
            config.session_ms,
            self._here() if self._placed is None or not shared else self._placed,
            count,
            self._machine,
            None if shared else _MAX_DEATHS,
        )
        self._supervisors[graph.name] = supervisor
        supervisor.start()

    def _here(self) -> Placement:
        if self._local is None:
            self._local = LocalProcesses(self._broker, self._config, self._machine)
        return self._local

    def is_given_up(self, graph: str) -> bool:
        """True if processes of a graph have died so often that they are not restarted."""
        return graph in self._supervisors and bool(self._supervisors[graph].given_up)

    def start_again(self, graph: str, pause_s: float) -> None:
        """Starts these processes after a pause."""
        self._supervisors[graph].start_again(pause_s)

    def end(self, graph: str) -> None:
        """Stops the processes of a distributed graph, if it has any."""
        if graph in self._supervisors:
            self._supervisors.pop(graph).stop()

    def stop(self) -> None:
        """Stops all processes in good order."""
        with ExitStack() as stack:
            for placement in (self._local, self._placed):
                if placement is not None:
                    stack.callback(placement.close)
            for name in list(self._supervisors):
                stack.callback(self.end, name)

    def views(self) -> list[InstanceView]:
        """Returns all instances, by graph and number."""
        supervisors = list(self._supervisors.values())
        return [view for supervisor in supervisors for view in self._views_of(supervisor)]

    def _views_of(self, supervisor: ProcessSupervisor) -> Iterator[InstanceView]:
        graph = supervisor.graph
        owned, subtasks = graph.owned(), graph.worker_reports.subtasks()
        for child in supervisor.children:
            reports = {i: subtasks[i] for i in owned.get(child.name, ()) if i in subtasks}
            view = self._view(graph, child, owned.get(child.name), reports)
            process, placement = child.process, supervisor.placement
            if process is None:
                yield msgspec.structs.replace(view, problem=child.problem)
            else:
                problem = view.problem or placement.problem(process)
                yield msgspec.structs.replace(view, host=placement.host(process), problem=problem)

    def _view(
        self,
        graph: DistributedGraph,
        child: Child,
        owned: tuple[int, ...] | None,
        subtasks: dict[int, SubtaskReport],
    ) -> InstanceView:
        report = graph.worker_reports.latest().get(child.name)
        if report is not None and report.pid != child.pid:  # of a former process
            report = None
        now_ms = self._machine.clock()
        rate = graph.worker_reports.rate(child.name, now_ms) if report else 0.0
        return InstanceView(
            graph=graph.name,
            instance=child.name,
            state=_state(child, owned),
            pid=child.pid,
            subtasks=owned or (),
            rows=report.rows_in if report else 0,
            rows_per_s=round(rate, 1),
            lag=sum(map(self._lag, subtasks.values())),
            memory=report.memory if report else 0,
            cpu_s=round(report.cpu_s, 2) if report else 0.0,
            since_ms=child.since_ms,
            restarts=max(0, child.restarts),
            problem=report.problem if report else None,
            waiting=tuple(_waiting(subtasks)),
        )

    def _lag(self, subtask: SubtaskReport) -> int:
        """Returns the unread records of the shards that a subtask reads."""
        return sum(
            max(0, self._broker.end_offset(topic, int(shard)) - offset)
            for topic, shards in subtask.positions.items()
            for shard, offset in shards.items()
        )


def _waiting(subtasks: dict[int, SubtaskReport]) -> Iterator[str]:
    for index, report in sorted(subtasks.items()):
        for other, size in sorted(report.backpressured_by.items()):
            yield (
                f"part {index} waits for part {other}, which has {size / (1 << 20):,.0f} MB of it"
                " to read"
            )


def _state(child: Child, owned: tuple[int, ...] | None) -> str:
    if child.process is None:
        return "dead"
    if owned is not None:
        return "running"
    return "silent" if child.joined else "starting"
