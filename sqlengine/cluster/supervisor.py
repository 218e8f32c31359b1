"""Supervises the instance processes of a distributed graph: starts, restarts and stops them."""

from __future__ import annotations

import logging
import math
import subprocess
import threading
from contextlib import suppress
from dataclasses import dataclass

from parser.errors import SqlError
from sqlengine.cluster.distributed_graph import DistributedGraph
from sqlengine.cluster.placement import Placement
from sqlengine.machine import Machine
from sqlengine.system.spawning import Place, Process

log = logging.getLogger("sqlengine")

_POLL_INTERVAL_S = 0.05
# A process that dies is restarted after a backoff, which doubles each time up to the maximum. It
# is reset once a process has lived for _STABLE_S.
_MIN_BACKOFF_S, _MAX_BACKOFF_S, _STABLE_S = 0.1, 10.0, 30.0
_STOP_TIMEOUT_S = 60.0
# A process that has left the group for this long hangs, and is killed.
_SILENT_TIMEOUT_S = 1.0


@dataclass
class Child:
    """One supervised process.

    `since`: its start in monotonic s; `restarts`: starts after the first; `restart_at`: not before
    this time; `deaths`: how often in a row it died soon after its start; `joined`: it has been a
    member of its group; `missing_since`: when it was first found not to be a member any more;
    `problem`: why the last process ended, where its placement knows."""

    name: str
    process: Process | None = None
    since: float = 0.0
    since_ms: int = 0
    restarts: int = -1
    restart_at: float = 0.0
    backoff_s: float = _MIN_BACKOFF_S
    deaths: int = 0
    joined: bool = False
    missing_since: float | None = None
    problem: str | None = None

    @property
    def pid(self) -> int | None:
        """The id of the process; None if it does not run."""
        return (self.process.pid or None) if self.process is not None else None


class ProcessSupervisor:
    """Supervises `count` instances of one distributed graph, named 1, 2 and so on, where the
    `placement` starts them.

    With `max_deaths` an instance that has died so often in a row, soon after its start each time,
    is given up: the jobs of the graph fail, and it is not restarted before `start_again`."""

    patience_s = None

    def __init__(
        self,
        graph: DistributedGraph,
        session_ms: int,
        placement: Placement,
        count: int,
        machine: Machine,
        max_deaths: int | None = None,
    ) -> None:
        self.graph = graph
        self.children = [Child(str(number + 1)) for number in range(count)]
        self.placement = placement
        self._session_ms = session_ms
        self._machine = machine
        self._now = machine.threads.now
        self._members_checked_at = 0.0
        self._max_deaths = max_deaths
        self._stopping = threading.Event()
        # Linux kills the children when this thread ends, for whatever reason.
        self._thread = machine.threads.thread(f"instances-{graph.name}", self)

    def start(self) -> None:
        """Starts the thread that starts the processes."""
        self._thread.start()

    def stop(self) -> None:
        """Stops all processes in good order. May be called twice, or before `start`."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def given_up(self) -> list[Child]:
        """The processes that died too often. Any thread."""
        return [child for child in self.children if child.restart_at == math.inf]

    def start_again(self, pause_s: float) -> None:
        """Starts the processes that were given up after a pause. Any thread: that of the supervisor
        touches none of them before."""
        for child in self.given_up:
            child.deaths, child.backoff_s = 0, _MIN_BACKOFF_S
            child.restart_at = self._now() + pause_s

    def run(self) -> None:
        """Supervises until `stop` (the supervisor's thread)."""
        try:
            while not self._stopping.wait(_POLL_INTERVAL_S):
                self.turn()
        finally:
            self.shut()

    def turn(self) -> bool:
        """Starts processes that do not run, and kills those that hang."""
        for child in self.children:
            self._supervise(child)
        if self._now() - self._members_checked_at > _SILENT_TIMEOUT_S / 2:
            self._kill_silent()
            self._members_checked_at = self._now()
        return False

    def _supervise(self, child: Child) -> None:
        code = None if child.process is None else child.process.poll()
        if code is not None:
            log.warning("instance %s of %s ended with code %d", child.name, self.graph.name, code)
            self._reap(child)
            if child.deaths == self._max_deaths:
                child.restart_at = math.inf  # before its jobs fail, which may start it again
                self.graph.fail_jobs(
                    f"the process of graph '{self.graph.name}' died {child.deaths} times in a row"
                    f" (code {code})"
                )
        if child.process is None and self._now() >= child.restart_at:
            self._start(child)

    def _start(self, child: Child) -> None:
        place = Place(child.name, self.graph.name, self._session_ms)
        child.since, child.since_ms = self._now(), self._machine.clock()
        try:
            child.process = self.placement.start(place)
        except OSError as error:  # no memory, or too many processes
            log.error("instance %s of %s cannot be started: %s", child.name, self.graph.name, error)
            self._back_off(child)
            return
        child.restarts += 1
        child.joined, child.missing_since = False, None

    def _back_off(self, child: Child) -> None:
        """Sets when a process that has ended is restarted."""
        if self._now() - child.since > _STABLE_S:
            child.deaths, child.backoff_s = 1, _MIN_BACKOFF_S
        else:
            child.deaths += 1
            child.backoff_s = min(2 * child.backoff_s, _MAX_BACKOFF_S)
        child.restart_at = self._now() + child.backoff_s

    def _reap(self, child: Child) -> None:
        """Removes a dead process from its group, whose other members take over its subtasks."""
        self._back_off(child)
        if child.process is not None:
            child.problem = self.placement.problem(child.process)
        child.process = None
        with suppress(SqlError):  # otherwise its session times out
            self.graph.expel(child.name)

    def _kill_silent(self) -> None:
        """Kills the processes that have left the group without ending."""
        try:
            members = self.graph.members()
        except SqlError as error:
            log.warning("the instances of %s cannot be supervised: %s", self.graph.name, error)
            return
        for child in self.children:
            if child.process is None:
                continue
            if child.name in members:
                child.joined, child.missing_since = True, None
            elif child.joined:
                # It may join again at once after a missed heartbeat: only a longer silence counts.
                child.missing_since = child.missing_since or self._now()
                if self._now() - child.missing_since > _SILENT_TIMEOUT_S:
                    log.error(
                        "instance %s of %s is silent, and is killed", child.name, self.graph.name
                    )
                    child.process.kill()

    def shut(self) -> None:
        """Terminates all processes, and kills those that do not end within _STOP_TIMEOUT_S."""
        running = [c.process for c in self.children if c.process is not None]
        for process in running:
            # All at once, then wait: each may take a while for its checkpoints.
            process.terminate()
        deadline = self._now() + _STOP_TIMEOUT_S
        for process in running:
            try:
                process.wait(max(0.0, deadline - self._now()))
            except subprocess.TimeoutExpired:
                log.error("process %d does not end, and is killed", process.pid)
                process.kill()
                process.wait()
