"""Instances that kill themselves at a place which a test has named, or are killed and stopped at
any moment."""

from __future__ import annotations

import mmap
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ParamSpec, TypeVar

import msgspec

from sqlengine.broker.errors import BrokerUnreachable
from sqlengine.broker.remote.unix_socket import UnixSocketTransport
from sqlengine.broker.remote.wire import (
    AnyRequest,
    Append,
    AppendAll,
    Join,
    Leave,
    Request,
    appends_of,
)
from sqlengine.cluster.control_follower import ControlLogFollower
from sqlengine.cluster.instance import Instance
from sqlengine.cluster.owned_subtasks import OwnedSubtasks
from sqlengine.cluster.subtask_stores import subtasks_folder
from sqlengine.executors.build import OperatorFactory
from sqlengine.machine import THIS
from sqlengine.state.stores import RocksStores
from sqlengine.system.spawning import Work
from tests.recovery.crash_injection import (
    CrashingStores,
    CrashInjector,
    LastChange,
    PlannedCrash,
    die,
)
from tests.recovery.points import point_of_topic

T = TypeVar("T")
P = ParamSpec("P")

_POINTS = {
    "_parts": "part record",
    "_shuffle": "rows between parts",
    "_checkpoints": "checkpoint of a part",
}
_WORK: tuple[tuple[type, str, str], ...] = (
    (OwnedSubtasks, "_open", "part taken up"),
    (OwnedSubtasks, "close", "part given up"),
    (ControlLogFollower, "_prepare", "change prepared"),
    (ControlLogFollower, "_switch", "change made in a part"),
)
_TOLD = ("_instances", "_control")
_REQUEST: msgspec.msgpack.Decoder[AnyRequest] = msgspec.msgpack.Decoder(AnyRequest)


def point_asked(request: Request) -> str | None:
    """Which point it is to ask for something; None for what changes nothing that is kept."""
    match request:
        case Join():
            return "instance joins"
        case Leave():
            return "instance leaves"
        case Append() | AppendAll():
            topic = appends_of(request)[0].topic
            if topic.startswith(_TOLD):
                return None
            return next(
                (point for start, point in _POINTS.items() if topic.startswith(start)),
                point_of_topic(topic),
            )
    return None


class CrashingTransport(UnixSocketTransport):
    """Within a change: the question was sent, and nobody is there for the answer."""

    def __init__(self, work: Work, injector: CrashInjector) -> None:
        assert isinstance(work.socket, Path)
        super().__init__(work.socket)
        self._injector = injector

    def __call__(self, question: bytes, again: bool) -> bytes:
        point = point_asked(_REQUEST.decode(question))
        if point is None:
            return super().__call__(question, again)
        with self._injector.change(point) as in_part:
            if in_part:
                threading.Timer(0.001, die).start()
            return super().__call__(question, again)


def inject_crashes_into_subtasks(injector: CrashInjector) -> None:
    """What this process does with subtasks from now on."""

    def mortal(point: str, work: Callable[P, T]) -> Callable[P, T]:
        def run(*args: P.args, **options: P.kwargs) -> T:
            with injector.change(point) as in_part:
                if in_part:
                    threading.Timer(0.002, die).start()
                return work(*args, **options)

        return run

    for owner, method, point in _WORK:
        setattr(owner, method, mortal(point, getattr(owner, method)))


class InstanceProcesses:
    """What is known of instances that were forked one after the other, also when they are gone: the
    last change of each, and whether it met its planned crash or was killed by the server's side. `free`: the
    server may die, too."""

    def __init__(self, most: int) -> None:
        self._memory = mmap.mmap(-1, 3 * most + 1)
        self.most = most

    @property
    def free(self) -> bool:
        return bool(self._memory[-1])

    def let_go(self) -> None:
        self._memory[-1] = 1

    @property
    def killed(self) -> list[int]:
        """The numbers of those that were."""
        return [number for number in range(self.most) if self.marked(number)]

    def last(self, number: int) -> LastChange:
        return LastChange(self._memory, 3 * number)

    def mark(self, number: int) -> None:
        self._memory[3 * number + 2] = 1

    def marked(self, number: int) -> bool:
        return bool(self._memory[3 * number + 2])

    def forget(self) -> None:
        self._memory[:] = bytes(len(self._memory))


def run_instance(
    processes: InstanceProcesses, crashes: Sequence[PlannedCrash], work: Work, number: int
) -> None:
    """An instance as `sqlengine.cluster.process` runs it; the first ones have planned crashes."""
    number = min(number, processes.most - 1)
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    sys.setswitchinterval(0.0001)
    crash = crashes[number] if number < len(crashes) else None
    injector = CrashInjector(crash, processes.last(number), lambda: processes.mark(number))
    inject_crashes_into_subtasks(injector)
    stores = CrashingStores(
        RocksStores(subtasks_folder(work.config)), injector, "checkpoint of a part"
    )
    factory = OperatorFactory(THIS.rules(work.config))
    with suppress(BrokerUnreachable):  # the server is dead
        Instance(
            work.place, CrashingTransport(work, injector), work.config, THIS, factory, stores
        ).run(stopping.is_set)
