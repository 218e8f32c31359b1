"""Made-up events of a small company's hosts, in the fields of Sysmon and auditd exports, with
attacks at known places.

    for event in generate(seed=7, count=10_000, attacks=spread(10_000, ATTACKS)): ...

The same arguments give the same events, to the byte. Each event has all of FIELDS; what does not
apply is None. `scenario` names the attack that an event belongs to: the truth to compare alerts
with, no field of a real export.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta

from demo.attacks import ATTACKS, Steps
from demo.hosts import FIELDS, Event, Network, stamp
from demo.routine import activity

START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
EVENTS_PER_SECOND = 20.0
EVENTS_PER_ACTIVITY = 3.0
__all__ = ["ATTACKS", "FIELDS", "Event", "generate", "spread"]


def spread(count: int, names: Iterable[str]) -> dict[int, str]:
    """Places for `names`, evenly over the first three quarters of `count` events, so that each has
    room to end."""
    chosen = list(names)
    return {
        (place + 1) * count * 3 // (4 * (len(chosen) + 1)): name
        for place, name in enumerate(chosen)
    }


def generate(seed: int, count: int, attacks: Mapping[int, str] | None = None) -> Iterator[Event]:
    """`count` events in order of time. `attacks`: after how many events which of ATTACKS begins
    (KeyError: no such)."""
    rng = random.Random(seed)
    chains = {place: ATTACKS[name] for place, name in (attacks or {}).items()}
    names = dict(attacks or {})
    network = Network(rng)
    agenda = _Agenda()
    clock = START
    for number in range(count):
        if number in chains:
            agenda.add(clock, chains[number](network, rng), names[number])
        while agenda.earliest is None or agenda.earliest > clock:
            clock += _pause(clock, rng)
            agenda.add(clock, activity(network, rng), None)
        yield agenda.next()


def _pause(clock: datetime, rng: random.Random) -> timedelta:
    """Until the next activity begins: four times as long outside office hours."""
    rate = EVENTS_PER_SECOND / EVENTS_PER_ACTIVITY
    return timedelta(seconds=rng.expovariate(rate if 8 <= clock.hour < 18 else rate / 4))


class _Agenda:
    """Activities that run at once, by the time of their next event."""

    def __init__(self) -> None:
        self._heap: list[tuple[datetime, int, Event, Steps, str | None]] = []
        self._added = 0

    @property
    def earliest(self) -> datetime | None:
        return self._heap[0][0] if self._heap else None

    def add(self, now: datetime, steps: Steps, scenario: str | None) -> None:
        """Put the next step of an activity on the agenda, unless it has ended."""
        step = next(steps, None)
        if step is not None:
            wait, event = step
            self._added += 1
            heapq.heappush(
                self._heap, (now + timedelta(seconds=wait), self._added, event, steps, scenario)
            )

    def next(self) -> Event:
        time, _, event, steps, scenario = heapq.heappop(self._heap)
        self.add(time, steps, scenario)
        return {**event, "ts": stamp(time), "scenario": scenario}
