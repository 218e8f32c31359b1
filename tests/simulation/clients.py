"""Those who use the servers: they write events, change jobs, read what comes out, and carry it to
another server. Each asks again until it has an answer, and remembers nothing but what it was
told."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal, Protocol

from parser.errors import ServiceError, SqlError
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.engine.engine import Engine
from sqlengine.engine.requests import Outcome, Request
from sqlengine.jobs.job import JobState, Origin
from sqlengine.jobs.planning import JobText
from sqlengine.snapshots.savepoint_files import Savepoint
from tests.simulation.network import Network
from tests.simulation.node import Node
from tests.simulation.world import World


class Client(Protocol):
    @property
    def done(self) -> bool: ...

    def act(self) -> None: ...


@dataclass
class Writer:
    """Appends batches in order as one writer, epoch by epoch; the next one when the last is
    acknowledged."""

    world: World
    network: Network
    node: Node
    name: str
    topic: str
    shard: int
    batches: list[list[bytes]]
    may_begin: Callable[[], bool]
    acknowledged: int = 0
    asked: int = -1

    @property
    def done(self) -> bool:
        return self.acknowledged == len(self.batches)

    def act(self) -> None:
        """Sends the next batch, or once more the one that nobody answers for."""
        if (
            self.done
            or not self.may_begin()
            or (self.asked == self.acknowledged and not self.world.happens(0.3))
        ):
            return
        self.asked = number = self.acknowledged
        self.network.send(f"{self.name} {number}", lambda: self._arrive(number))

    def _arrive(self, number: int) -> None:
        engine = self.node.engine
        if engine is None:
            return
        with self.node.may_crash():
            try:
                engine.broker.append(
                    self.topic,
                    self.shard,
                    self.batches[number],
                    timestamp_ms=self.world.now_ms,
                    writer=self.name,
                    epoch=number + 1,
                )
            except ServiceError:
                if not self.node.short:
                    raise
                return
            self.network.send(f"{self.name} ok {number}", lambda: self._told(number))

    def _told(self, number: int) -> None:
        self.acknowledged = max(self.acknowledged, number + 1)


@dataclass
class Change:
    """One change of one job; no text withdraws it. `how` says what else: 'restart' stops it with a
    savepoint and starts it from that, 'roll back' brings its first text back, 'rename' gives it the
    name that `sql` is, 'isolate' takes it into a graph of its own and 'merge' back."""

    name: str
    sql: str | None
    how: Literal["submit", "restart", "roll back", "rename", "isolate", "merge"] = "submit"


# From here on there is something to read.
BEGIN = Change("", None)


@dataclass
class Operator:
    """Submits, replaces and withdraws jobs, one after the other. `made`: what is known to have
    taken effect."""

    world: World
    node: Node
    waiting: deque[Change]
    made: list[Change] = field(default_factory=list)

    @property
    def done(self) -> bool:
        return not self.waiting

    @property
    def has_begun(self) -> bool:
        return BEGIN not in self.waiting

    def act(self) -> None:
        engine = self.node.engine
        if self.done or engine is None or self.world.happens(0.8 if self.node.short else 0.1):
            return
        change = self.waiting[0]
        if change is BEGIN:
            self.waiting.popleft()
            return
        self.world.note("operator", "asks", change.name)
        outcome = self._asked(engine, change)
        if outcome is None or outcome.status == "refused" or self.world.happens(0.1):
            if outcome is not None:
                self._check(outcome)
            return
        self.world.note("operator", outcome.status, change.name)
        self.world.met[f"{change.how} of a job"] += 1
        self.waiting.popleft()
        if change.how == "submit":
            self.made.append(change)

    def _asked(self, engine: Engine, change: Change) -> Outcome | None:
        """None where the process dies over it."""
        outcomes: list[Outcome] = []
        with self.node.may_crash():
            outcomes.append(self._ask(engine, change))
        return outcomes[0] if outcomes else None

    def _ask(self, engine: Engine, change: Change) -> Outcome:
        try:
            match change.how:
                case "restart":
                    return _restart(engine, change.name)
                case "roll back":
                    return engine.rollback(change.name, 1)
                case "isolate":
                    return engine.isolate(change.name)
                case "merge":
                    return engine.merge(change.name)
                case "rename":
                    return _rename(engine, change.name, str(change.sql))
                case _:
                    return _submit(engine, change)
        except SqlError as error:
            return Outcome(change.name, "refused", error=error)

    def _check(self, outcome: Outcome) -> None:
        """A job may be gone already where the answer was lost; a full disk takes nothing; all else
        is a failure."""
        if outcome.error is None:
            return
        self.world.note("operator", "refused", str(outcome.error)[:60])
        if "does not exist" in str(outcome.error):
            self.made.append(self.waiting.popleft())
        elif not self.node.short:
            raise outcome.error


def _submit(engine: Engine, change: Change) -> Outcome:
    texts = {} if change.sql is None else {change.name: JobText(change.name, change.sql)}
    removes = frozenset({change.name} if change.sql is None else ())
    return engine.change(Request(Origin.SDK, texts, removes=removes))[change.name]


def _restart(engine: Engine, name: str) -> Outcome:
    """Where the answer to the stop was lost, the job is stopped already, and its only savepoint
    says where."""
    mine = [s for s in engine.savepoints.all() if isinstance(s, Savepoint) and s.job == name]
    if engine.job(name).state is JobState.STOPPED:
        return engine.start_job(name, mine[0].path)
    for old in mine:
        engine.savepoints.delete(old.path)
    return engine.start_job(name, engine.save_job(name, stop=True).savepoint)


def _rename(engine: Engine, old: str, new: str) -> Outcome:
    if new in engine.log.jobs:
        return Outcome(new, "renamed")
    return engine.change(Request(Origin.SDK, renames={old: new}))[new]


@dataclass
class Reader:
    """Reads a topic as a group and commits how far it is; after a death it goes on where it had
    committed."""

    world: World
    node: Node
    topic: str
    committed: int = 0
    tried: int = 0
    done: bool = True

    def act(self) -> None:
        engine = self.node.engine
        if engine is None:
            return
        at = engine.broker.committed("watch", self.topic).get(0, 0)
        lossy = self.node.config.fsync == "interval"  # after a loss of power it may be behind
        assert lossy or at in (self.committed, self.tried), (
            f"group at {at}, committed {self.committed}, tried {self.tried}"
        )
        self.committed = at
        records = engine.broker.read(self.topic, 0, at, max_records=self.world.chance.randint(1, 9))
        if records is None:
            return
        self.tried = records.next_offset
        with self.node.may_crash():
            try:
                engine.broker.commit("watch", self.topic, {0: self.tried})
            except ServiceError:
                if not self.node.short:
                    raise
                self.tried = self.committed
                return
            self.committed = self.tried


@dataclass
class Bridge:
    """Carries records from one server to the other, one at a time; the epoch is where it goes on,
    so that it asks the other server for its place when it begins anew."""

    world: World
    network: Network
    source: Node
    target: Node
    topics: tuple[str, str]
    at: int | None = None

    @property
    def done(self) -> bool:
        engine = self.source.engine
        return engine is not None and self.at == engine.broker.end_offset(self.topics[0], 0)

    def act(self) -> None:
        here, there = self.source.engine, self.target.engine
        if here is None or there is None:
            return
        if self.at is None or self.world.happens(0.05):  # begun anew
            self.at = there.broker.last_epoch(self.topics[1], 0, "bridge") or 0
        records = here.broker.read(self.topics[0], 0, self.at, max_records=1)
        if records is not None:
            at, value = self.at, records.values.to_pylist()
            self.network.send(f"bridge {at}", lambda: self._arrive(at, value))

    def _arrive(self, at: int, value: list[bytes]) -> None:
        engine = self.target.engine
        if engine is None:
            return
        with self.target.may_crash():
            try:
                engine.broker.append(
                    self.topics[1],
                    0,
                    value,
                    timestamp_ms=self.world.now_ms,
                    writer="bridge",
                    epoch=at + 1,
                )
            except ServiceError:
                if not self.target.short:
                    raise
                return
            self.network.send(f"bridge ok {at}", lambda: self._told(at))

    def _told(self, at: int) -> None:
        self.at = max(self.at or 0, at + 1)


@dataclass
class Caretaker:
    """What a server does now and then."""

    world: World
    node: Node
    done: bool = True

    def act(self) -> None:
        engine = self.node.engine
        if engine is None:
            return
        broker = engine.broker
        works: list[Callable[[], None]] = [
            broker.apply_retention,
            broker.sync,
            engine.dead_letters.refresh,
        ]
        works += [partial(broker.compact, t.name) for t in broker.topics() if t.compacted]
        works.append(lambda: self._move(broker))
        with self.node.may_crash(), self.world.doing("upkeep"):
            try:
                self.world.chance.choice(works)()
            except ServiceError:
                if not self.node.short:
                    raise

    def _move(self, broker: EmbeddedBroker) -> None:
        """A shard of a topic goes on in another folder, and what it has follows."""
        chance = self.world.chance
        topic = chance.choice([t for t in broker.topics() if not t.name.startswith("_")])
        folder = Path(f"/{self.node.name}/volume{chance.randint(0, 9)}")
        broker.move_shard(
            topic.name, chance.randrange(topic.shards), folder, data=chance.random() < 0.7
        )
        self.world.met["shard moved"] += 1
