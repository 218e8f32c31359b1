"""The processes that run the parts of a divided graph: started with the server, again when they
die, and ended with it."""

from __future__ import annotations

import logging
import math
import os
import subprocess
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from parser.errors import SqlError
from sqlengine.cluster.distributed_graph import DistributedGraph
from sqlengine.config import Config
from sqlengine.machine import Machine
from sqlengine.system.spawning import Place, Process, Work

log = logging.getLogger("sqlengine")

_LOOK_S = 0.05
# A process that dies is started again after a pause, twice as long each time; one that lived so
# long has none to begin with.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _SOUND_S = 0.1, 10.0, 30.0
_STOP_S = 60.0
# One that is no member any more and does not come back in that time hangs, and is killed.
_SILENT_S = 1.0


@dataclass
class Child:
    """One of the processes: `since` in s of the monotonic clock, `restarts` so far; `missing_at`:
    since when it is no member of its group any more, having been one; `deaths`: how often in a row
    it has died soon after its start."""

    name: str
    process: Process | None = None
    since: float = 0.0
    since_ms: int = 0
    restarts: int = -1
    again_at: float = 0.0
    pause_s: float = _FIRST_PAUSE_S
    deaths: int = 0
    joined: bool = False
    missing_at: float | None = None

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process is not None else None


class ProcessSupervisor:
    """`count` instances of one divided graph, named 1, 2 and so on; `stop` ends them in good order.
    With `most` one that has died so often, soon after its start each time, is not started again:
    the jobs of the graph fail."""

    patience_s = None

    def __init__(
        self,
        graph: DistributedGraph,
        config: Config,
        socket: Path,
        count: int,
        machine: Machine,
        most: int | None = None,
    ) -> None:
        self.graph = graph
        self.children = [Child(str(number + 1)) for number in range(count)]
        self._config = config
        self._socket = socket
        self._machine = machine
        self._now = machine.threads.now
        self._looked = 0.0
        self._most = most
        self._stopping = threading.Event()
        # Linux kills the children when this thread ends, however that comes.
        self._thread = machine.threads.thread(f"instances-{graph.name}", self)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends all of them in good order. May be called twice, and of what was never started."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def run(self) -> None:
        """What its thread does until `stop`."""
        try:
            while not self._stopping.wait(_LOOK_S):
                self.turn()
        finally:
            self.shut()

    def turn(self) -> bool:
        """Starts who is not there, and kills who is silent."""
        for child in self.children:
            self._look_after(child)
        if self._now() - self._looked > _SILENT_S / 2:
            self._look_for_silent()
            self._looked = self._now()
        return False

    def _look_after(self, child: Child) -> None:
        code = None if child.process is None else child.process.poll()
        if code is not None:
            log.warning("instance %s of %s ended with code %d", child.name, self.graph.name, code)
            self._bury(child)
            if child.deaths == self._most:
                child.again_at = math.inf
                self.graph.fail_jobs(
                    f"the process of graph '{self.graph.name}' died {child.deaths} times in a row"
                    f" (code {code})"
                )
        if child.process is None and self._now() >= child.again_at:
            self._start(child)

    def _start(self, child: Child) -> None:
        place = Place(child.name, self.graph.name, self._config.session_ms)
        child.since, child.since_ms = self._now(), self._machine.clock()
        try:
            child.process = self._machine.spawn(
                Work(place, self._config, self._socket, os.getpid())
            )
        except OSError as error:  # no memory, or too many processes
            log.error("instance %s of %s cannot be started: %s", child.name, self.graph.name, error)
            self._pause(child)
            return
        child.restarts += 1
        child.joined, child.missing_at = False, None

    def _pause(self, child: Child) -> None:
        lived = self._now() - child.since
        child.deaths = 1 if lived > _SOUND_S else child.deaths + 1
        child.pause_s = (
            _FIRST_PAUSE_S if lived > _SOUND_S else min(2 * child.pause_s, _LONGEST_PAUSE_S)
        )
        child.again_at = self._now() + child.pause_s

    def _bury(self, child: Child) -> None:
        """Its parts go to the others at once, and it comes back in a while."""
        self._pause(child)
        child.process = None
        with suppress(SqlError):  # else its session ends
            self.graph.expel(child.name)

    def _look_for_silent(self) -> None:
        try:
            members = self.graph.members()
        except SqlError as error:
            log.warning("the instances of %s cannot be looked after: %s", self.graph.name, error)
            return
        for child in self.children:
            if child.process is None:
                continue
            if child.name in members:
                child.joined, child.missing_at = True, None
            elif child.joined:
                child.missing_at = child.missing_at or self._now()
                if self._now() - child.missing_at > _SILENT_S:
                    log.error(
                        "instance %s of %s is silent, and is killed", child.name, self.graph.name
                    )
                    child.process.kill()

    def shut(self) -> None:
        """Ends all; those that do not end in time are killed."""
        running = [c.process for c in self.children if c.process is not None]
        for process in running:
            process.terminate()
        deadline = self._now() + _STOP_S
        for process in running:
            try:
                process.wait(max(0.0, deadline - self._now()))
            except subprocess.TimeoutExpired:
                log.error("process %d does not end, and is killed", process.pid)
                process.kill()
                process.wait()
