"""Messages between clients and servers: late, out of order, twice, or never."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.simulation.world import World


@dataclass
class Network:
    """`calm`: nothing is lost or doubled any more."""

    world: World
    flying: list[tuple[str, Callable[[], None]]] = field(default_factory=list)
    calm: bool = False

    def send(self, label: str, arrive: Callable[[], None]) -> None:
        self.flying.append((label, arrive))

    def deliver(self) -> None:
        """One of the messages, any of them."""
        chance, met = self.world.chance, self.world.met
        place = chance.randrange(len(self.flying))
        label, arrive = self.flying.pop(place)
        if not self.calm:
            met["message out of order"] += place > 0
            draw = chance.random()
            if draw < 0.1:
                met["message lost"] += 1
                self.world.note("network", "loses", label)
                return
            if draw < 0.2:
                met["message doubled"] += 1
                self.flying.append((label, arrive))
        self.world.note("network", "brings", label)
        arrive()
