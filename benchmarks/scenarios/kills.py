"""Servers are killed in turn while others work."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from benchmarks.scenarios.usage import Usage
from tests.servers.process import ServerProcess

_LONGEST_S = 5.0  # a server is away for so long at most, before it starts


@dataclass(frozen=True)
class Outage:
    """A server was killed. `start_s`: seconds from its start until it was ready."""

    name: str
    start_s: float


def kill_in_turn(
    turns: Sequence[ServerProcess],
    seconds: float,
    kills: int,
    usage: Usage,
    gently: Collection[ServerProcess] = (),
) -> list[Outage]:
    """Waits for some seconds, and kills one server of `turns` after the other meanwhile, at even
    distances; those of `gently` are stopped as their operator would."""
    chance, start = random.Random(1), time.monotonic()
    outages: list[Outage] = []
    for number in range(kills):
        at = start + (number + 0.5) * seconds / kills
        time.sleep(max(0.0, at - time.monotonic()))
        one = turns[number % len(turns)]
        usage.note(one)
        one.stop() if one in gently else one.kill()
        time.sleep(chance.uniform(0, min(_LONGEST_S, seconds / kills / 4)))
        begun = time.monotonic()
        one.start()
        outages.append(Outage(one.name, time.monotonic() - begun))
    time.sleep(max(0.0, start + seconds - time.monotonic()))
    return outages


def counted(outages: Sequence[Outage]) -> str:
    """How often which, as a text."""
    times = Counter(o.name for o in outages)
    return ", ".join(f"{name} {n}" for name, n in sorted(times.items())) or "none"


def slowest_s(outages: Sequence[Outage], name: str) -> float:
    """The longest time in which a server started again."""
    return max((o.start_s for o in outages if o.name == name), default=0.0)
