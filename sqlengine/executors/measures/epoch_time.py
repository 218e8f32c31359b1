"""The time of a graph's thread, by what it was spent for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import thread_time


@dataclass
class EpochTime:
    """The time of a runner's thread in epochs that had something to do, in s: that of operators by
    the clock and of the CPU; `commits` of the CPU by sink, and `shared_s` of it for all else, such
    as reading and records of epochs."""

    operators_s: float = 0.0
    operators_cpu_s: float = 0.0
    shared_s: float = 0.0
    commits: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    _known: float = 0.0  # of the present step

    @staticmethod
    def begin() -> float:
        """Returns the CPU time at which a step begins, for `end`."""
        return thread_time()

    @contextmanager
    def processing(self, now: Callable[[], float], spent: Callable[[], float]) -> Iterator[None]:
        """Runs the operators of an epoch. `now`: the clock (s); `spent`: what they have taken of
        this step by it."""
        cpu, began, before = thread_time(), now(), spent()
        yield
        seconds = spent() - before
        busy = min(1.0, (thread_time() - cpu) / max(now() - began, 1e-9))
        self.operators_s += seconds
        self.operators_cpu_s += busy * seconds
        self._known += busy * seconds

    def committed(self, sink: str, began: float) -> None:
        """Counts a commit that began at this CPU time."""
        spent = thread_time() - began
        self.commits[sink] += spent
        self._known += spent

    def end(self, began: float, *, counts: bool) -> None:
        """Ends a step, which `counts` if it had something to do."""
        if counts:
            self.shared_s += max(0.0, thread_time() - began - self._known)
        self._known = 0.0
