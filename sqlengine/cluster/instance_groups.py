"""The instances of a server: for each of its divided graphs some processes, which reach its broker
over a socket."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from sqlengine.broker.remote.wire import Served
from sqlengine.cluster.control_log import InstanceReport, SubtaskReport
from sqlengine.cluster.distributed_graph import DistributedGraph
from sqlengine.cluster.supervisor import Child, ProcessSupervisor
from sqlengine.config import Config
from sqlengine.jobs.isolation_settings import group_of
from sqlengine.machine import Machine
from sqlengine.system.spawning import Door

# The jobs of an isolation group fail when its process has died so often, each time soon after its
# start.
_MOST_DEATHS = 5


@dataclass(frozen=True)
class InstanceView:
    """An instance as people see it. `state`: starting, running, silent (no member of its group any
    more) or dead; `lag`: records of topics that its parts have not read yet; `memory` in bytes;
    `rows`: read since it started; `waiting`: why parts of it read no sources for now."""

    graph: str
    instance: str
    state: str
    pid: int | None
    parts: tuple[int, ...]
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
    """The graph that jobs share has as many as the configuration says, any other one. `stop` ends
    all in good order."""

    def __init__(self, broker: Served, config: Config, machine: Machine) -> None:
        self._broker = broker
        self._config = config
        self._machine = machine
        self._door: Door | None = None
        self._processes: dict[str, ProcessSupervisor] = {}

    def run(self, graph: DistributedGraph) -> None:
        """Starts the processes of a divided graph: no more than it has parts."""
        if self._door is None:
            self._door = self._machine.door(self._broker)
        config = self._config
        count = min(max(config.instances, 1), graph.parallelism)
        most = None if group_of(graph.name) is None else _MOST_DEATHS
        held = ProcessSupervisor(graph, config, self._door.path, count, self._machine, most)
        self._processes[graph.name] = held
        held.start()

    def end(self, graph: str) -> None:
        """Ends the processes of a divided graph, if it has any."""
        if graph in self._processes:
            self._processes.pop(graph).stop()

    def stop(self) -> None:
        with ExitStack() as stack:
            if self._door is not None:
                stack.callback(self._door.close)
            for name in list(self._processes):
                stack.callback(self.end, name)

    def views(self) -> list[InstanceView]:
        """All instances, by graph and number."""
        return [view for held in list(self._processes.values()) for view in self._of(held)]

    def _of(self, held: ProcessSupervisor) -> Iterator[InstanceView]:
        graph = held.graph
        owned, latest, parts = (
            graph.owned(),
            graph.worker_reports.latest(),
            graph.worker_reports.subtasks(),
        )
        for child in held.children:
            report = latest.get(child.name)
            mine = {p: parts[p] for p in owned.get(child.name, ()) if p in parts}
            yield self._view(
                graph, child, owned.get(child.name), report if _is_of(report, child) else None, mine
            )

    def _view(
        self,
        graph: DistributedGraph,
        child: Child,
        owned: tuple[int, ...] | None,
        report: InstanceReport | None,
        parts: dict[int, SubtaskReport],
    ) -> InstanceView:
        now_ms = self._machine.clock()
        rate = graph.worker_reports.rate(child.name, now_ms) if report else 0.0
        return InstanceView(
            graph=graph.name,
            instance=child.name,
            state=_state(child, owned),
            pid=child.pid,
            parts=owned or (),
            rows=report.rows_in if report else 0,
            rows_per_s=round(rate, 1),
            lag=sum(map(self._lag, parts.values())),
            memory=report.memory if report else 0,
            cpu_s=round(report.cpu_s, 2) if report else 0.0,
            since_ms=child.since_ms,
            restarts=max(0, child.restarts),
            problem=report.problem if report else None,
            waiting=tuple(_waiting(parts)),
        )

    def _lag(self, part: SubtaskReport) -> int:
        return sum(
            max(0, self._broker.end_offset(topic, int(shard)) - at)
            for topic, shards in part.positions.items()
            for shard, at in shards.items()
        )


def _waiting(parts: dict[int, SubtaskReport]) -> Iterator[str]:
    for index, part in sorted(parts.items()):
        for other, size in sorted(part.waits_for.items()):
            yield (
                f"part {index} waits for part {other}, which has {size / (1 << 20):,.0f} MB of it"
                " to read"
            )


def _is_of(report: InstanceReport | None, child: Child) -> bool:
    return report is not None and report.pid == child.pid


def _state(child: Child, owned: tuple[int, ...] | None) -> str:
    if child.process is None:
        return "dead"
    if owned is not None:
        return "running"
    return "silent" if child.joined else "starting"
