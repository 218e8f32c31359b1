"""Instances that kill themselves at a place which a test has named, or are killed and stopped at
any moment."""

from __future__ import annotations

import mmap
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
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
from tests.recovery.mortal import Doom, Fate, LastChange, MortalStores, die
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


class MortalTransport(UnixSocketTransport):
    """Within a change: the question was sent, and nobody is there for the answer."""

    def __init__(self, work: Work, fate: Fate) -> None:
        super().__init__(work.socket)
        self._fate = fate

    def __call__(self, question: bytes, again: bool) -> bytes:
        point = point_asked(_REQUEST.decode(question))
        if point is None:
            return super().__call__(question, again)
        with self._fate.change(point) as in_part:
            if in_part:
                threading.Timer(0.001, die).start()
            return super().__call__(question, again)


def make_parts_mortal(fate: Fate) -> None:
    """What this process does with parts from now on."""

    def mortal(point: str, work: Callable[P, T]) -> Callable[P, T]:
        def run(*args: P.args, **options: P.kwargs) -> T:
            with fate.change(point) as in_part:
                if in_part:
                    threading.Timer(0.002, die).start()
                return work(*args, **options)

        return run

    for owner, method, point in _WORK:
        setattr(owner, method, mortal(point, getattr(owner, method)))


class Lives:
    """What is known of instances that were forked one after the other, also when they are gone: the
    last change of each, and whether it met its doom or was killed by the server's side. `free`: the
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


def run_instance(lives: Lives, dooms: Sequence[Doom], work: Work, number: int) -> None:
    """An instance as `sqlengine.cluster.process` runs it; the first ones have dooms."""
    number = min(number, lives.most - 1)
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    sys.setswitchinterval(0.0001)
    doom = dooms[number] if number < len(dooms) else None
    fate = Fate(doom, lives.last(number), lambda: lives.mark(number))
    make_parts_mortal(fate)
    stores = MortalStores(RocksStores(subtasks_folder(work.config)), fate, "checkpoint of a part")
    factory = OperatorFactory(THIS.rules(work.config))
    with suppress(BrokerUnreachable):  # the server is dead
        Instance(work.place, MortalTransport(work, fate), work.config, THIS, factory, stores).run(
            stopping.is_set
        )
