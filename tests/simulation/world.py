"""What a life is made of besides the engine: chance, time, the trace of all that happened, and
death."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

# Who did what to what: (ms, whose, what, on what, numbers).
Step: TypeAlias = tuple[int, str, str, str, int, int]
# Of lives, each as often as it stands here.
KINDS = ("alone",) * 5 + ("parts",)
START_MS = 1_767_225_600_000


class Death(BaseException):
    """A process ends here, between two operations on its disk or within one."""


@dataclass
class World:
    """One per life. All chance comes from `chance`, all time from `now_ms`, by which the clock has
    `jumped_ms`; `place` says what the process does that runs now ('epoch', 'recovery', …). `met`
    counts faults; `kills` by the place where they struck. `kind`: 'parts' for a life with
    instances."""

    seed: int
    kind: str = field(init=False)
    chance: random.Random = field(init=False)
    now_ms: int = START_MS
    jumped_ms: int = 0
    place: str = ""
    trace: list[Step] = field(default_factory=list)
    met: Counter[str] = field(default_factory=Counter)
    kills: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.kind = random.Random(f"kind of {self.seed}").choice(KINDS)
        self.chance = random.Random(self.seed)

    def clock(self) -> int:
        return self.now_ms

    @property
    def up_ms(self) -> int:
        """Time that only grows."""
        return self.now_ms - self.jumped_ms

    def note(self, whose: str, what: str, on: str = "", a: int = 0, b: int = 0) -> None:
        self.trace.append((self.now_ms - START_MS, whose, what, on, a, b))

    def happens(self, probability: float) -> bool:
        return self.chance.random() < probability

    @contextmanager
    def doing(self, place: str) -> Iterator[None]:
        before, self.place = self.place, place
        yield
        self.place = before


def shown(step: Step) -> str:
    at, whose, what, on, a, b = step
    return f"{at:>8} {whose:<8} {what:<10} {on} {a or ''} {b or ''}".rstrip()
