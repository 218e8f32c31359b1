"""Checkpoint stores in memory. A put is there whole or not; a loss of power loses the last ones of
a process, since they are not synced, as RocksDB's are not."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from parser.errors import ServiceError
from sqlengine.state.store import Loaded, MemoryStore, Position
from sqlengine.state.table import TableDelta
from tests.simulation.world import Death, World


@dataclass
class _Kept:
    """What a store held after each of its puts since it was opened, the last one last."""

    states: list[MemoryStore] = field(default_factory=lambda: [MemoryStore()])
    holder: SimulatedStores | None = None


Shelf: TypeAlias = dict[str, _Kept]


class SimulatedStores:
    """See `CheckpointStores`; `crashes_now` as that of the disk. `kept` outlives the process, and may be
    that of others, too: a store is open in one of them."""

    def __init__(
        self, world: World, owner: str, crashes_now: Callable[[], bool], kept: Shelf | None = None
    ) -> None:
        self.kept: Shelf = {} if kept is None else kept
        self.dead = False
        self._world = world
        self._owner = owner
        self._crashes_now = crashes_now

    def names(self) -> list[str]:
        return sorted(self.kept)

    def open(self, name: str) -> SimulatedStore:
        kept = self.kept.setdefault(name, _Kept())
        if kept.holder not in (None, self):
            raise ServiceError(
                f"checkpoint store '{name}' cannot be opened", detail="another process has it"
            )
        kept.holder = self
        del kept.states[:-1]
        return SimulatedStore(self, name)

    def remove(self, name: str) -> None:
        self.change("forget", name, lambda: self.kept.pop(name, None))

    def change(self, what: str, name: str, work: Callable[[], object]) -> None:
        if self.dead:
            raise Death
        self._world.note(self._owner, what, name)
        dies = self._crashes_now()
        if not dies or self._world.happens(0.5):
            work()
        if dies:
            self.dead = True
            raise Death

    def end_process(self) -> None:
        """Whoever comes next may open what it had."""
        self.dead = True
        for kept in self.kept.values():
            if kept.holder is self:
                kept.holder = None

    def lose_power(self) -> None:
        for kept in self.kept.values():
            del kept.states[self._world.chance.randrange(len(kept.states)) + 1 :]


class SimulatedStore:
    """See `CheckpointStore`."""

    def __init__(self, stores: SimulatedStores, name: str) -> None:
        self._stores = stores
        self._name = name

    @property
    def _states(self) -> list[MemoryStore]:
        return self._stores.kept[self._name].states

    def put(self, position: Position, changes: Mapping[str, TableDelta]) -> None:
        json.dumps(position)
        self._stores.change("checkpoint", self._name, lambda: self._next().put(position, changes))

    def _next(self) -> MemoryStore:
        held, fresh = self._states[-1], MemoryStore()
        fresh._position, fresh._parts = (
            held._position,
            {name: list(parts) for name, parts in held._parts.items()},
        )
        self._states.append(fresh)
        return fresh

    def load(self) -> Loaded | None:
        return self._states[-1].load()

    def drop(self, table: str) -> None:
        self._stores.change("drop", self._name, lambda: self._next().drop(table))

    def close(self) -> None:
        kept = self._stores.kept.get(self._name)
        if kept is not None and kept.holder is self._stores:
            kept.holder = None
