"""The instances of a server: a group of processes for each of its distributed graphs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import msgspec

from sqlengine.broker.remote.wire import Served
from sqlengine.cluster.control_log import SubtaskReport
from sqlengine.cluster.distributed_graph import DistributedGraph
from sqlengine.cluster.supervisor import Child, ProcessSupervisor
from sqlengine.config import Config
from sqlengine.jobs.isolation_settings import group_of
from sqlengine.machine import Machine
from sqlengine.system.spawning import Door

# The jobs of an isolation group fail once its process has died this often in a row, each time soon
# after its start.
_MAX_DEATHS = 5


class InstanceView(msgspec.Struct, frozen=True):
    """An instance as the REST API shows it.

    `state`: starting, running, silent (no longer a member of its group) or dead; `rows`: read
    since it started; `lag`: unread records of the topics that its subtasks read; `memory`:
    resident bytes; `waiting`: why subtasks of it read no sources for now. The API calls the
    subtasks parts."""

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


class InstanceGroups:
    """Starts and stops the processes of distributed graphs. They reach the server's broker over a
    socket.

    The shared graph gets as many processes as configured, up to its parallelism."""

    def __init__(self, broker: Served, config: Config, machine: Machine) -> None:
        self._broker = broker
        self._config = config
        self._machine = machine
        self._door: Door | None = None
        self._supervisors: dict[str, ProcessSupervisor] = {}

    def run(self, graph: DistributedGraph) -> None:
        """Starts the processes of a distributed graph: at most one for each subtask."""
        if self._door is None:
            self._door = self._machine.door(self._broker)
        config = self._config
        count = min(max(config.instances, 1), graph.parallelism)
        max_deaths = None if group_of(graph.name) is None else _MAX_DEATHS
        supervisor = ProcessSupervisor(
            graph, config, self._door.path, count, self._machine, max_deaths
        )
        self._supervisors[graph.name] = supervisor
        supervisor.start()

    def end(self, graph: str) -> None:
        """Stops the processes of a distributed graph, if it has any."""
        if graph in self._supervisors:
            self._supervisors.pop(graph).stop()

    def stop(self) -> None:
        """Stops all processes in good order."""
        with ExitStack() as stack:
            if self._door is not None:
                stack.callback(self._door.close)
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
            yield self._view(graph, child, owned.get(child.name), reports)

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
