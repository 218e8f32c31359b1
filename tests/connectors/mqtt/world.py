"""An engine with tables of MQTT, and what came out of its jobs."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.machine import THIS, Machine
from tests.servers.mosquitto import Mosquitto
from tests.support import eventually

_NUMBERS = itertools.count(1)


@dataclass
class World:
    """An engine over one folder, which may be closed and opened again. `root`: the first level of
    topics that no other test has."""

    server: Mosquitto
    folder: Path
    root: str = field(default_factory=lambda: f"t{next(_NUMBERS)}")
    engine: Engine | None = None

    @contextmanager
    def open(self, machine: Machine = THIS, **config: Any) -> Iterator[Engine]:
        engine = Engine(Config(data=self.folder / "data", checkpoint_ms=200, **config), machine)
        engine.start()
        self.engine = engine
        try:
            yield engine
        finally:
            self.engine = None
            engine.close()

    def table(
        self, name: str, columns: str, topic: str, *, address: str | None = None, **options: str
    ) -> str:
        """A definition; `topic` is below the root of the test."""
        given = {
            "connector": "mqtt",
            "server": address or self.server.address,
            "format": "json",
            "topic": ";".join(f"{self.root}/{t}" for t in topic.split(";")),
            **{k.replace("__", ".").replace("_", "-"): v for k, v in options.items()},
        }
        listed = ", ".join(f"'{k}' = '{v}'" for k, v in given.items())
        return f"CREATE TABLE {name} ({columns}) WITH ({listed});"

    def read(self, topic: str) -> list[Any]:
        """The records of a topic of the engine, decoded."""
        assert self.engine is not None
        broker, found, at = self.engine.broker, [], 0
        while (records := broker.read(topic, 0, at)) is not None:
            found += [json.loads(v) for v in records.values.to_pylist()]
            at = records.next_offset
        return found

    def rows(self, topic: str, count: int) -> list[Any]:
        """The records of a topic once there are so many."""

        def enough() -> bool:
            assert self.engine is not None
            return self.engine.broker.end_offset(topic, 0) >= count

        eventually(enough, lambda: f"{count} records of '{topic}': {self.read(topic)[:20]}")
        return self.read(topic)

    def connected(self, streams: int = 1) -> None:
        """Waits until messages of so many streams are taken."""
        assert self.engine is not None
        receivers = self.engine.receivers
        eventually(
            lambda: [v for v in receivers.views() if v.connected and v.asked >= streams],
            lambda: str(receivers.views()),
        )


def out(name: str, columns: str) -> str:
    """A topic of the engine, as a table of the same name."""
    return f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'topic', 'topic' = '{name}', 'format' = 'json');"
