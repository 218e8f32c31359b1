"""How an instance holds its parts when its leader wants them to stand still, and writes down what
they have of a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from parser.errors import SqlError
from planner.graph.division import INCOMING
from sqlengine.broker.errors import BrokerUnreachable
from sqlengine.broker.ownership import Fence
from sqlengine.cluster.control_log import (
    CollectState,
    Done,
    Held,
    InspectState,
    Pause,
    Problem,
    Resume,
)
from sqlengine.cluster.subtask import Subtask
from sqlengine.executors.state_inspection import inspect_state
from sqlengine.snapshots.migrations import MigrationStore
from sqlengine.snapshots.rescaling import subtask_snapshot


class PauseHandler:
    """`tell` tells the leader what parts have done, with a fence where it holds of their owner
    alone. All methods are called from the thread of the parts."""

    def __init__(
        self, name: str, pieces: MigrationStore, tell: Callable[[Done, Fence | None], None]
    ) -> None:
        self._name = name
        self._pieces = pieces
        self._tell = tell
        self._held: tuple[int, Pause] | None = None
        self._fetched: tuple[int, CollectState] | None = None
        self._told: dict[int, tuple[Subtask, Done]] = {}

    def obey(self, number: int, entry: Held, parts: Mapping[int, Subtask]) -> None:
        match entry:
            case Pause():
                self._held, self._fetched = (number, entry), None
            case CollectState():
                self._fetched = number, entry
            case Resume():
                self._held = self._fetched = None
        if not isinstance(entry, CollectState):
            for part in parts.values():
                self.take_up(part)

    def show(self, number: int, entry: InspectState, parts: Mapping[int, Subtask]) -> None:
        """Tells what the operations of a job keep in each part."""
        for index, part in parts.items():
            try:
                seen = inspect_state(part.runner, entry.job, entry.operation, entry.limit)()
                self._tell(Done(self._name, number, index, seen=seen), None)
            except BrokerUnreachable:
                raise
            except SqlError as error:
                problem = Problem(error.message, error.detail, error.hint)
                self._tell(Done(self._name, number, index, problem=problem), None)

    def take_up(self, part: Subtask) -> None:
        """A part is held like the others, or goes on like them."""
        if self._held is not None:
            part.runner.pause(self._held[1].bounds)
        else:
            part.runner.resume()

    def attend(self, parts: Mapping[int, Subtask]) -> None:
        """Tells of parts that stand, or have done what they are asked for besides, once each. What
        one tells who has lost a part and does not know it yet would stand in the place of what its
        owner told."""
        if self._held is None:
            return
        for index, part in parts.items():
            done = self._done(index, part)
            if done is not None and self._told.get(index) != (part, done):
                self._tell(done, part.fence())
                self._told[index] = part, done

    def _done(self, index: int, part: Subtask) -> Done | None:
        assert self._held is not None
        number = self._held[0] if self._fetched is None else self._fetched[0]
        try:
            if not part.runner.quiesced:
                return None
            if self._fetched is not None:
                if (
                    self._fetched[1].job not in part.runner.graph.jobs
                ):  # it was taken out since, and the part opened then
                    return None
                return self._fetch(number, self._fetched[1].job, index, part)
        except BrokerUnreachable:
            raise
        except SqlError as error:
            return Done(
                self._name, number, index, problem=Problem(error.message, error.detail, error.hint)
            )
        inputs = part.runner.inputs.running
        at = next(iter(inputs[INCOMING].positions.values())) if INCOMING in inputs else 0
        positions = {
            name: dict(source.positions) for name, source in inputs.items() if name != INCOMING
        }
        return Done(self._name, number, index, at, positions)

    def _fetch(self, number: int, job: str, index: int, part: Subtask) -> Done:
        """Each instance writes under a name of its own: one that has lost the part and does not
        know it disturbs nobody."""
        piece = f"{job}#{number}-{index}-{self._name}"
        told = self._told.get(index)
        if told is None or told[0] is not part or told[1].piece != piece:
            self._pieces.put(piece, subtask_snapshot(part.runner, job))
        return Done(self._name, number, index, piece=piece)
