"""One instance of a divided graph: runs the parts that it owns, makes the changes that the leader
decides, and tells what it does."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping

from parser.errors import SqlError
from sqlengine.broker.errors import BrokerError, BrokerUnreachable, Fenced
from sqlengine.broker.ownership import Fence
from sqlengine.broker.remote.client import RemoteBroker, Transport
from sqlengine.broker.remote.read_ahead import ReadAheadBroker
from sqlengine.cluster.control_follower import ControlLogFollower
from sqlengine.cluster.control_log import (
    Answer,
    ControlLog,
    Done,
    Failed,
    Reports,
    SubtaskReport,
    Told,
)
from sqlengine.cluster.counters import Counters, described
from sqlengine.cluster.load_reports import LoadReports
from sqlengine.cluster.membership import GroupMembership
from sqlengine.cluster.owned_subtasks import OwnedSubtasks
from sqlengine.cluster.pause_handler import PauseHandler
from sqlengine.cluster.subtask import Subtask, open_part
from sqlengine.cluster.subtask_log import subtask_log_topic
from sqlengine.config import Config
from sqlengine.executors.build import OperatorFactory
from sqlengine.functions.pool import POOL
from sqlengine.graphs.load_monitor import IsolationTrigger
from sqlengine.graphs.running import GraphHost
from sqlengine.jobs.planning import PlannedJob
from sqlengine.machine import Machine
from sqlengine.registry import Registry
from sqlengine.snapshots.migrations import MigrationStore
from sqlengine.state.stores import CheckpointStores
from sqlengine.system.spawning import Place

log = logging.getLogger("sqlengine")

# An idle instance looks at least so often for changes and parts; data wakes it at once.
IDLE_S = 0.1
# After a turn that reads few rows the next one begins no sooner: most of what it costs is for the
# epoch, not for its rows.
PACE_S, FEW = 0.04, 4096
# It reports so often while it does anything, and so often when it does nothing.
REPORT_S, QUIET_S = 1.0, 10.0


class Instance:
    """Joins when it is made. The stream and the parts belong to the thread that calls `run`;
    changes are prepared beside it, and a third thread tells the server that this process lives."""

    def __init__(
        self,
        place: Place,
        server: Transport,
        config: Config,
        machine: Machine,
        factory: OperatorFactory,
        stores: CheckpointStores,
    ) -> None:
        self.place = place
        broker, self._broker = RemoteBroker(server), ReadAheadBroker(server)
        self._clock, self._now, self._usage = machine.clock, machine.threads.now, machine.usage
        self._registry = Registry(broker, config, machine)
        self._reports = Reports(broker, place.graph)
        self._line = machine.threads.line("changes")
        handovers = MigrationStore(broker, machine.clock, sync=config.fsync == "interval")
        self._host = GraphHost(
            config,
            machine,
            self._broker,
            factory,
            stores,
            self._registry.fails_on_error,
            self._failed,
            self._line.submit,
            self._registry.memory,
            handovers.get,
        )
        self._known: dict[str, tuple[int, PlannedJob]] = {}
        self._told: dict[frozenset[str], float] = {}
        self._untold: deque[tuple[Answer | Done, Fence | None]] = deque()
        self._began, self._looked = machine.clock(), self._now()
        self._news: (
            tuple[Counters, Mapping[int, SubtaskReport], str | None, list[IsolationTrigger]] | None
        ) = None
        self._watch = LoadReports(
            lambda name: (self._known[name][0], self._known[name][1].settings)
        )
        self._news_at = 0.0
        self._holding = PauseHandler(place.name, handovers, self._tell)
        control = ControlLog(self._broker, place.graph)
        self._following = ControlLogFollower(
            place.name, control, self._line, self._registry.log.refresh, self._tell, self._holding
        )
        group = subtask_log_topic(place.graph)
        self._count = broker.topic(group).shards
        self._member = GroupMembership(
            broker, group, place.name, group, place.session_ms, machine.threads
        )
        self._owned = OwnedSubtasks(
            place.name, place.graph, self._member, self._open, machine.threads.now
        )
        POOL.join(self, self._on_broken_function)  # last: one that does not come up has not joined

    def run(self, stopping: Callable[[], bool]) -> None:
        """Until it is told to stop; closes its parts then, and leaves. BrokerUnreachable where the
        server is gone."""
        busy = True
        while not stopping():
            came = self._broker.prefetch(0.0 if busy else IDLE_S)
            began, rows = time.monotonic(), self._rows_in()
            busy = self.turn()
            if (came or busy) and self._rows_in() - rows < FEW:
                time.sleep(max(0.0, began + PACE_S - time.monotonic()))
        self.close()

    def turn(self) -> bool:
        """Gives up and takes up parts, makes changes, steps each part once. False when there was
        nothing to do."""
        self._owned.follow()
        self._following.listen(self._owned.parts)
        self._owned.reopen_those_before(self._following.version)
        busy = self._owned.step()
        self._holding.attend(self._owned.parts)
        if self._now() - self._looked >= REPORT_S:
            self._tell_again()
            self._report()
        return busy

    @property
    def parts(self) -> Mapping[int, Subtask]:
        """Those that run here."""
        return self._owned.parts

    @property
    def version(self) -> int:
        """Of the graph, as far as this instance has heard."""
        return self._following.version

    def close(self) -> None:
        """Ends the epochs, writes checkpoints, gives the parts to the others."""
        self._following.give_up()
        for index in list(self._owned.held):
            self._owned.close(index, "the instance stops")
        self._line.shutdown(wait=True)
        self._report()
        self._member.leave()
        POOL.leave(self)

    def _open(self, index: int, fence: Callable[[], Fence]) -> Subtask:
        """The part, with all changes that the others have made."""
        self._broker.discard()  # others may have written into its log since
        part = open_part(self.place.graph, index, self._count, self._host, self._plans, fence)
        try:
            self._following.catch_up(part)
        except BaseException:
            part.abandon()
            raise
        return part

    def _plans(self, jobs: Mapping[str, int]) -> dict[str, PlannedJob | SqlError]:
        """Parts ask for the same plans one after the other."""
        known = self._known
        held = {n: known[n][1] for n, v in jobs.items() if n in known and known[n][0] == v}
        found = self._registry.plans_of({n: v for n, v in jobs.items() if n not in held})
        known |= {n: (jobs[n], plan) for n, plan in found.items() if isinstance(plan, PlannedJob)}
        return found | held

    def _rows_in(self) -> int:
        return sum(part.runner.progress.rows_in for part in self._owned.parts.values())

    # ---- what the server is told -----------------------------------------------------------------

    def _tell(self, told: Told, fence: Fence | None = None) -> None:
        """A full disk costs a report; the leader waits for an answer, which comes later. Of a part
        its owner tells."""
        try:
            self._reports.tell(told, self._clock(), fence)
        except BrokerUnreachable:
            raise
        except Fenced as error:
            log.info("instance %s does not tell of a part: %s", self.place.name, error)
        except BrokerError as error:
            log.warning("instance %s cannot tell the server: %s", self.place.name, error)
            if isinstance(told, Answer | Done):
                self._untold.append((told, fence))

    def _tell_again(self) -> None:
        for _ in range(len(self._untold)):
            self._tell(*self._untold.popleft())

    def _report(self) -> None:
        now = self._looked = self._now()
        parts = {index: described(part) for index, part in self._owned.parts.items()}
        count = self._owned.done.with_parts(self._owned.parts.values())
        problem, troubles = self._owned.problem, self._watch.look(self._owned.parts)
        news = (count, parts, problem, troubles)
        if news != self._news or now - self._news_at >= QUIET_S:
            self._news, self._news_at = news, now
            usage = self._usage()
            self._tell(
                count.report(
                    self.place.name, self._began, self._clock(), parts, usage, problem, troubles
                )
            )

    def _failed(self, jobs: frozenset[str], reason: str) -> None:
        """Tells of jobs at fault, now and then until they are gone."""
        now = self._now()
        if jobs - {""} and now - self._told.get(jobs, -REPORT_S) >= REPORT_S:
            self._told[jobs] = now
            self._tell(Failed(self.place.name, sorted(jobs), reason))

    def _on_broken_function(self, identity: str, reason: str) -> None:
        """Called by a thread that evaluates: a function of a user was switched off."""
        graphs = [part.runner.graph for part in self._owned.parts.values()]
        jobs = frozenset(
            j
            for g in graphs
            for n in g.nodes.values()
            if identity in n.plan.functions
            for j in n.jobs
        )
        self._failed(jobs, reason)
