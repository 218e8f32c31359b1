"""When a graph's checkpoint is made, what it says besides the tables, and what was restored from the last one."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa

from sqlengine.state.checkpoint import Checkpointer
from sqlengine.state.store import CheckpointStore
from sqlengine.state.table import KeyedTable

POSITION_FORMAT = 1


@dataclass(frozen=True)
class Position:
    """Where a graph stood. `log_offset` is behind the epoch's record; `positions`: next offsets by source and shard;
    `jobs`: the running version of each; `stateful`: (node id, birth) of each job's state."""

    graph: str
    epoch: int
    version: int
    log_offset: int
    positions: dict[str, dict[str, int]]
    ended: list[str]
    unstarted: list[str]
    jobs: dict[str, int]
    stateful: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    format: int = POSITION_FORMAT


class Checkpoints:
    """The checkpoints of one graph: the next one is due after `rows` changed rows, or `ms` after the last when anything
    has happened since. `position` and `restored` are what the store held when this was made."""

    def __init__(self, store: CheckpointStore, rows: int, ms: int, writer: Executor | None = None) -> None:
        self._store = store
        self._rows = rows
        self._ms = ms
        self._writer = Checkpointer(store, writer)
        self._last = 0
        loaded = store.load()
        self.position = msgspec.convert(loaded.position, Position) if loaded is not None else None
        self.restored: Mapping[str, pa.Table] = loaded.tables if loaded is not None else {}
        self.counters = self._writer.counters

    def adopt(self, tables: Mapping[str, KeyedTable]) -> None:
        """The tables are now what the store holds: the next checkpoint writes only what changes from here on."""
        if self.position is not None:
            self._writer.adopt(msgspec.to_builtins(self.position), tables)
        self.restored = {}

    def due(self, tables: Mapping[str, KeyedTable], now_ms: int) -> bool:
        return now_ms - self._last >= self._ms or self._writer.changed_rows(tables) >= self._rows

    def begin(self, position: Position, tables: Mapping[str, KeyedTable], now_ms: int) -> None:
        """Copies what changed and starts to write it; nothing happens while the last one is still being written."""
        if self._writer.begin(msgspec.to_builtins(position), tables):
            self._last = now_ms

    def finish(self, position: Position, tables: Mapping[str, KeyedTable], now_ms: int) -> None:
        """A checkpoint that is in the store when this returns."""
        self._writer.wait()
        self.begin(position, tables, now_ms)
        self._writer.wait()

    def close(self) -> None:
        self._writer.wait()
        self._store.close()
