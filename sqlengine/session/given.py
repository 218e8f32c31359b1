"""The services that the runner of a script is given, and does not open itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sqlengine.broker.base import Broker
from sqlengine.broker.embedded import EmbeddedBroker, system_clock
from sqlengine.connectors.memory.tables import Memory


@dataclass(frozen=True)
class Given:
    """The services of a runner: a `broker` that others close (None: that of its folder), the
    `clock` (ms), and tables in memory."""

    broker: Broker | None = None
    clock: Callable[[], int] = system_clock
    memory: Memory = field(default_factory=Memory)

    @contextmanager
    def opened(self, data: Path) -> Iterator[Broker]:
        """Gives the broker, or opens that of a folder."""
        if self.broker is not None:
            yield self.broker
            return
        with closing(EmbeddedBroker(data, fsync="none", clock=system_clock)) as broker:
            yield broker
