"""The clock of a backtest: it follows the row times, and epochs are as short as rules need."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from planner.logical import LogicalPlan
from planner.logical.joins import Join
from planner.logical.node import Stateful
from sqlengine.batch import MAX_WATERMARK
from sqlengine.broker.embedded import system_clock
from sqlengine.executors.runner import GraphRunner
from sqlengine.executors.steps.pace import ReadingPace
from sqlengine.operators.watermark import WatermarkOperator

# What lives for some time shall see so many steps of the clock meanwhile.
_STEPS: Final = 20
_BEGIN_ROWS: Final = 1


@dataclass
class EpochLength(ReadingPace):
    """Bounds the rows of an epoch so that the clock goes on by about `step` (ms) in each."""

    step: int
    _most: float = field(default=_BEGIN_ROWS, init=False)

    def __post_init__(self) -> None:
        super().__init__()

    def rows(self, source: str, most: int) -> int:
        """See `ReadingPace`."""
        self._most = min(self._most, most)
        return max(1, min(int(self._most), super().rows(source, most)))

    def went_on(self, ms: int) -> None:
        """Takes up that the clock went on by so much in the last epoch."""
        self._most = max(1.0, self._most * min(2.0, max(0.1, self.step / max(ms, 1))))


@dataclass
class Clock:
    """Follows the greatest row time of what was read in the epochs before; without any it is that
    of the machine (`now` None)."""

    now: int | None = None
    _length: EpochLength | None = field(default=None, init=False)

    def __call__(self) -> int:
        return system_clock() if self.now is None else self.now

    def begin(self, graph: GraphRunner, plans: Iterable[LogicalPlan]) -> None:
        """Sees a graph of these nodes before its first epoch."""
        lives = [ms for node in plans for ms in _lives(node) if ms]
        if lives and self.now is not None:
            graph.inputs.pace = self._length = EpochLength(max(min(lives) // _STEPS, 1))

    def follow(self, graph: GraphRunner) -> None:
        """Goes on to the greatest row time so far, behind an epoch."""
        before, known = self.now, self.now
        for node in graph.executor.running.values():
            if isinstance(node.operator, WatermarkOperator) and known is not None:
                times = (time for time, _ in node.operator.shards().values())
                known = max(known, *(t for t in times if t < MAX_WATERMARK), known)
        self.now = known
        if self._length is not None and before is not None and known is not None:
            self._length.went_on(known - before)


def _lives(node: LogicalPlan) -> tuple[int, ...]:
    """Returns how long (ms) what a node remembers lives without being touched; 0 for ever."""
    if isinstance(node, Join):
        return node.ttl_of(0), node.ttl_of(1)
    return (node.ttl_ms,) if isinstance(node, Stateful) else ()
