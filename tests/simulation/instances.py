"""Instances of a server: processes of their own in the same thread. Each has threads, checkpoints
and crashes of its own, and reaches the broker of its server by questions; it dies alone, or with the
server.

A process may be held up between a question and what follows from its answer: others go on
meanwhile."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from parser.errors import ServiceError
from sqlengine.broker.errors import BrokerUnreachable
from sqlengine.broker.remote.request_handler import handle_request
from sqlengine.broker.remote.wire import (
    Append,
    AppendAll,
    Heartbeat,
    Join,
    Leave,
    Request,
    Served,
    Trim,
    appends_of,
)
from sqlengine.cluster.instance import Instance
from sqlengine.cluster.subtask import Subtask
from sqlengine.executors.build import OperatorFactory
from sqlengine.functions.pool import POOL
from sqlengine.machine import Machine
from sqlengine.system.memory import Usage
from sqlengine.system.spawning import Work
from tests.simulation.planner import RememberingPlanner
from tests.simulation.stores import Shelf, SimulatedStores
from tests.simulation.threads import SimulatedThreads
from tests.simulation.world import Death, World

if TYPE_CHECKING:
    from tests.simulation.node import Node

KILLED, GONE = -9, 1
# What changes something, and so may be the last that a process does.
_CHANGES = (Append, AppendAll, Join, Leave, Trim, Heartbeat)
_TOLD = ("_control", "_instances")


class _Dies(Death):
    """The process, not the server that it asks."""


class SimulatedDoor:
    """Where the broker of one life of a server answers."""

    def __init__(self, broker: Served) -> None:
        self.path = Path("/broker")
        self.broker: Served | None = broker

    def close(self) -> None:
        self.broker = None


class SimulatedProcess:
    """See `Process`. `resumes_at`: until when it is stopped; `busy`: it is in the midst of
    something."""

    def __init__(self, node: Node, work: Work, door: SimulatedDoor, shelf: Shelf, pid: int) -> None:
        self.pid = pid
        self.work = work
        self.code: int | None = None
        self.instance: Instance | None = None
        self.resumes_at = 0
        self.busy = False
        self._left, self._in_epochs = node.crash_of_instance()
        self._node = node
        self._world: World = node.world
        self._name = f"{node.name}.{work.place.name}"
        self._door = door
        self._stopping = False
        self.threads = SimulatedThreads(self._world)
        self.stores = SimulatedStores(self._world, self._name, self._dies, shelf)

    # ---- what the server asks of it --------------------------------------------------------------

    def poll(self) -> int | None:
        return self.code

    def terminate(self) -> None:
        self._stopping = True

    def kill(self) -> None:
        self._end(KILLED)

    def wait(self, timeout: float | None = None) -> int:
        """It goes on until it has ended; one that is held up does not."""
        if self.code is None and not self.possible():
            raise subprocess.TimeoutExpired(self._name, timeout or 0.0)
        while self.code is None:
            self.turn()
        return self.code

    # ---- what it does ----------------------------------------------------------------------------

    def possible(self) -> list[Callable[[], object]]:
        """What it may do next."""
        if self.code is not None or self.busy or self._world.up_ms < self.resumes_at:
            return []
        return [self.turn, *(self._alive(work) for work in self.threads.possible())]

    def turn(self) -> None:
        with self._may_crash():
            if self.instance is not None and not self._stopping:
                self.instance.turn()
                return
            short = self._node.short  # there may be space again before what found none comes back
            try:
                self._begin_or_end()
            except ServiceError:
                if not (short or self._node.short):
                    raise
                self._end(GONE)

    def calm(self) -> None:
        """It does not die any more, and goes on."""
        self._left = self.resumes_at = 0

    def settle(self) -> bool:
        """Does all that there is to do; whether it was something, or something is still to come."""
        if self.possible():
            self.turn()
            self._alive(self.threads.settle)()
        instance = self.instance
        if self.code is not None or instance is None:
            return True
        return any(
            p.runner.graph.version != instance.version or p.loop.problem
            for p in instance.subtasks.values()
        )

    def _alive(self, work: Callable[[], object]) -> Callable[[], None]:
        def turn() -> None:
            if self.code is None:
                with self._may_crash():
                    work()

        return turn

    def _begin_or_end(self) -> None:
        """Also this may find no space."""
        if self.instance is not None:
            self.instance.close()
        if self._stopping:
            self._end(0)
            return
        self._world.note(self._name, "begins")
        config = self.work.config
        machine = Machine(
            self._world.clock,
            self._node.disk,
            self.threads,
            lambda _: self.stores,
            RememberingPlanner,
            caches=False,
            usage=lambda: Usage(self.pid, 1 << 20, 0.0),
        )
        self.instance = Instance(
            self.work.place, self._ask, config, machine, OperatorFactory(), self.stores
        )

    @contextmanager
    def _may_crash(self) -> Iterator[None]:
        """The process may die within, and the server with what it is asked; that is for who runs
        the server to settle."""
        world, before = self._world, self._world.place
        world.place, self.busy = "instance", True
        try:
            yield
        except Death:
            self._is_struck()
        except BrokerUnreachable:
            self._end(GONE)
        world.place, self.busy = before, False
        self._node.raise_death()

    def _is_struck(self) -> None:
        if self.code is None:  # else the server has died while it was held up
            self._world.kills[self._world.place] += 1
            self._world.met["death of an instance"] += 1
            self._node.process_kills -= 1
            self._end(KILLED)

    def _end(self, code: int) -> None:
        if self.code is not None:
            return
        self._world.note(self._name, "ends", "", code)
        self.code = code
        self.stores.end_process()
        if self.instance is not None:
            POOL.leave(self.instance)

    # ---- what it asks ----------------------------------------------------------------------------

    def _ask(self, question: bytes, again: bool) -> bytes:
        """The process may die before it has asked, or before it has the answer; the server may die
        over the question."""
        broker, world, before = self._door.broker, self._world, self._world.place
        if self.code is not None:
            raise _Dies
        if broker is None:
            raise BrokerUnreachable("the server is gone")
        try:
            answered = handle_request(broker, question, self._is_asked)
        except _Dies:
            raise
        except Death:
            self._node.struck = world.place
            raise BrokerUnreachable("the server has died") from None
        if self.stores.dead:
            raise _Dies
        if world.place != before:
            self._node.hold_up()
            if self.code is not None:
                raise _Dies
            world.place = before
        return answered

    def _is_asked(self, request: Request) -> None:
        """Notes what is a change, and where in its work the process is."""
        if not isinstance(request, _CHANGES):
            return
        topics = [a.topic for a in appends_of(request)]
        self._world.place = "epoch" if topics and not topics[0].startswith(_TOLD) else "group"
        self._world.note(self._name, "asks", f"{type(request).__name__} {' '.join(topics)}")
        if self._dies():
            self.stores.dead = True
            if self._world.happens(0.5):
                raise _Dies

    def _dies(self) -> bool:
        if self._in_epochs and self._world.place != "epoch":
            return False
        self._left -= 1
        return self._left == 0

    @property
    def parts(self) -> dict[int, Subtask]:
        return (
            {} if self.instance is None or self.code is not None else dict(self.instance.subtasks)
        )
