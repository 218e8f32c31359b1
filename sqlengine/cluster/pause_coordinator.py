"""A standstill of all parts of a divided graph, and what a job has in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from parser.errors import JobError, ServiceError
from sqlengine.broker.base import Broker
from sqlengine.broker.errors import BrokerError
from sqlengine.cluster.control_log import (
    CollectState,
    ControlLog,
    Done,
    InspectState,
    Pause,
    Resume,
)
from sqlengine.cluster.worker_reports import WorkerReports
from sqlengine.connectors.shuffle import shuffle_topic
from sqlengine.executors.sources import Positions
from sqlengine.executors.state_inspection import StateView
from sqlengine.snapshots.job_snapshot import JobSnapshot
from sqlengine.snapshots.migrations import MigrationStore

# Parts that do not come to a standstill in that time go on.
PATIENCE_S = 60.0
_LOOK_S = 0.05


class CoordinatedGraph(Protocol):
    """What is asked of the divided graph."""

    name: str

    parallelism: int
    control: ControlLog

    worker_reports: WorkerReports

    def now(self) -> int: ...

    def poll_reports(self) -> None:
        """Hears what instances tell, where nobody else does."""


@dataclass
class PauseStats:
    """How often all parts have stood still since the server started, and how long in all, in s:
    from when they are told to until they are told to go on."""

    count: int = 0
    seconds: float = 0.0


class PauseCoordinator:
    """Of one graph; `clock` gives seconds that only grow. Who asks for a standstill asks for
    nothing else of the graph's loop meanwhile."""

    def __init__(
        self,
        graph: CoordinatedGraph,
        broker: Broker,
        pieces: Callable[[], MigrationStore],
        clock: Callable[[], float],
    ) -> None:
        self._graph = graph
        self._clock = clock
        self._owed = False
        self._broker = broker
        self._pieces = pieces
        self.stats = PauseStats()

    @contextmanager
    def quiesce(self) -> Iterator[Positions]:
        """All parts read no source and nothing is on its way between them: how far each source is
        read. ServiceError where they do not come to rest."""
        began = self._clock()
        try:
            yield self.advance_to({})
        finally:
            self.resume()
            self.stats.count += 1
            self.stats.seconds += self._clock() - began

    def advance_to(self, bounds: Positions) -> Positions:
        """The same for parts that stand, once they have read up to these offsets."""
        self._owed = False
        entry = Pause({name: dict(shards) for name, shards in bounds.items()})
        number = self._graph.control.append(entry, self._graph.now())
        found = self._wait(number, self._nothing_on_its_way)
        positions: dict[str, dict[str, int]] = {}
        for done in found.values():
            for name, shards in done.positions.items():
                positions.setdefault(name, {}).update(shards)
        return positions

    def resume_after_restart(self) -> None:
        """Lets go on what a former life of the server held."""
        told = [
            entry
            for _, entry in self._graph.control.read()
            if isinstance(entry, Pause | CollectState | Resume)
        ]
        if told and not isinstance(told[-1], Resume):
            self.resume()

    def resume(self) -> None:
        """Lets all go on."""
        try:
            self._graph.control.append(Resume(), self._graph.now())
            self._owed = False
        except BrokerError:  # a full disk
            self._owed = True

    def retry_resume(self) -> None:
        """Lets all go on who stand still only because there was no space to tell them."""
        if self._owed:
            self.resume()

    def collect_snapshots(self, job: str) -> list[JobSnapshot]:
        """What a job has in each part, at a standstill."""
        number = self._graph.control.append(CollectState(job), self._graph.now())
        found = self._wait(number, lambda done: True)
        handovers = self._pieces()
        try:
            pieces = [handovers.get(found[part].piece) for part in range(self._graph.parallelism)]
        finally:
            for done in found.values():
                handovers.remove(done.piece)
        return [piece for piece in pieces if piece is not None]

    def inspect_state(self, job: str, operation: int, limit: int) -> list[StateView]:
        """What the operations of a job keep in each part, between two epochs of it."""
        number = self._graph.control.append(InspectState(job, operation, limit), self._graph.now())
        found = self._wait(number, lambda done: True)
        return [
            seen
            for part in range(self._graph.parallelism)
            if (seen := found[part].seen) is not None
        ]

    def _nothing_on_its_way(self, found: dict[int, Done]) -> bool:
        """What a part sends is there before it tells that it stands. So where each has read all,
        nobody has sent anything since."""
        topic = shuffle_topic(self._graph.name)
        return all(done.at == self._broker.end_offset(topic, part) for part, done in found.items())

    def _wait(self, number: int, enough: Callable[[dict[int, Done]], bool]) -> dict[int, Done]:
        deadline, wait = self._clock() + PATIENCE_S, 0.0
        while True:
            found = self._graph.worker_reports.done(number, wait)
            for done in found.values():
                if done.problem is not None:
                    raise JobError(
                        done.problem.message, detail=done.problem.detail, hint=done.problem.hint
                    )
            if len(found) == self._graph.parallelism and enough(found):
                return found
            if self._clock() > deadline:
                missing = sorted(set(range(self._graph.parallelism)) - found.keys())
                raise ServiceError(
                    f"the parts of graph '{self._graph.name}' are busy",
                    detail=f"part {missing[0]} does not answer"
                    if missing
                    else "rows are on their way all the time",
                    hint="nothing was changed; 'sql instances' shows what they do",
                )
            self._graph.poll_reports()
            wait = _LOOK_S
