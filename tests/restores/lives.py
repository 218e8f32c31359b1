"""One statement through many lives: each ends behind an epoch with all that is in memory, and the
next one takes up what is in the checkpoint store and in the epoch log. Runner, log, checkpoints,
sources and sinks are the real ones; a clock that goes by epochs makes processing time the same in
every run."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

import pytest

from parser.errors import SqlError
from planner.graph.merge import Graph, merge
from planner.logical import LogicalPlan, Rank, Sink, Stateful
from planner.rewrite import transform
from sqlengine.batch import Batch
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.connectors import base
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.memory.tables import Memory
from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.dead_letters import DeadLetterSink
from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.executors.epochs import EPOCHS, LoggedChange, TopicEpochLog
from sqlengine.executors.graph_change import GraphChange
from sqlengine.executors.inputs import Inputs
from sqlengine.executors.recovery.repeating import recovering, repeat_epochs, restore
from sqlengine.executors.runner import GraphRunner
from sqlengine.executors.storage import GraphStorage, RunnerOptions
from sqlengine.formats.results import JsonValue, Row, rows_of
from sqlengine.operators.base import Output
from sqlengine.operators.watermark import WatermarkOperator
from sqlengine.session.runner import SCRIPT
from sqlengine.snapshots.checkpoints import CheckpointMetadata, Checkpoints
from sqlengine.state.columns import milliseconds
from sqlengine.state.rocks_store import RocksStore
from sqlengine.state.store import CheckpointStore, MemoryStore

NEVER = 1 << 60
START = 1_700_000_000_000
# A statement that reads so long without an end reads for ever.
STEPS = 20_000
# Epochs are so far apart; now and then a day passes, so that what is kept for a time only is over.
_TICK_MS = 1_009
_DAY_MS = 86_400_000
_DAYS_APART = 9


class Way(Enum):
    """How lives end."""

    UNDISTURBED = "one life"
    CHECKPOINTS = "a checkpoint, and the end, behind every epoch"
    REPLAYS = "an end behind every epoch, before its output or after it; a checkpoint now and then"
    ON_DISK = "the same over RocksDB, with the broker opened again"
    DRAINED = "drained where all is read: an end in the drain, before a sink has its output"

    @property
    def replays(self) -> bool:
        return self in (Way.REPLAYS, Way.ON_DISK)

    @property
    def checkpoint_every(self) -> int:
        return 3 if self.replays else 1


@dataclass(frozen=True)
class Statement:
    """What a session gives to its runner: plans that are merged as ever."""

    sinks: tuple[Sink, ...]
    settings: Mapping[str, str]

    def redirected(self, out: Path, to: Path) -> Statement:
        """The same with files that are written elsewhere."""
        return replace(self, sinks=tuple(_redirected(s, out, to) for s in self.sinks))

    def folded(self) -> Statement:
        """The same with mini-batch, as in a server: what changes a row several times in an epoch is
        told once."""
        return replace(
            self,
            sinks=tuple(
                s for s in (transform(s, _folded) for s in self.sinks) if isinstance(s, Sink)
            ),
        )

    @property
    def fails(self) -> bool:
        return self.settings.get("job.on-error", "fail") != "dead-letter"


def _folded(node: LogicalPlan) -> LogicalPlan:
    if (
        not isinstance(node, Stateful)
        or not node.row_by_row
        or (isinstance(node, Rank) and node.changes)
    ):
        return node  # changes of ranks below windows are always told one by one
    return replace(node, row_by_row=False)


def _redirected(sink: Sink, out: Path, to: Path) -> Sink:
    if sink.table is None or not sink.table.options.get("path", "").startswith(str(out)):
        return sink
    options = {**sink.table.options, "path": sink.table.options["path"].replace(str(out), str(to))}
    return replace(sink, table=replace(sink.table, options=options))


@dataclass
class Outcome:
    """What came out: rows by epoch, the lines of files and the records of topics (dead letters,
    too), how it ended, the number of epochs, and that of rows that came when their time was over,
    wherever that counts."""

    rows: dict[int, list[Row]] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    topics: dict[str, list[bytes]] = field(default_factory=dict)
    error: str = ""
    epochs: int = 0
    late: int = 0

    @property
    def left(self) -> Outcome:
        """What is there in the end, in no order."""
        counts: Counter[str] = Counter()
        for op, row in (r for _, rows in sorted(self.rows.items()) for r in rows):
            counts[json.dumps(row)] += -1 if op in ("-U", "-D") else 1
        rows: list[tuple[str, list[JsonValue]]] = sorted(
            (("+I" if n > 0 else "-D", [text]) for text, n in counts.items() for _ in range(abs(n)))
        )
        lines = {
            folder: "".join(sorted(text.splitlines(True))) for folder, text in self.files.items()
        }
        return Outcome({0: rows}, lines, error=self.error)

    def differs(self, other: Outcome) -> str:
        """In what, or ''. Of a statement that fails only its error counts: which rows came before
        is a matter of timing."""
        if self.error != other.error:
            return f"error: {self.error!r}, undisturbed {other.error!r}"
        if self.error:
            return ""
        for epoch in sorted(self.rows.keys() | other.rows.keys()):
            mine, theirs = self.rows.get(epoch, []), other.rows.get(epoch, [])
            if mine != theirs:
                return f"epoch {epoch}: {mine}, undisturbed {theirs}"
        if self.files != other.files:
            return f"files: {self.files}, undisturbed {other.files}"
        return (
            ""
            if self.topics == other.topics
            else f"topics: {self.topics}, undisturbed {other.topics}"
        )


@dataclass
class _Result(base.Sink):
    """Where the rows of a query go: the rows of an epoch come once, and another time only as they
    were."""

    told: dict[int, list[Row]]
    pending: list[Row] = field(default_factory=list)

    def last_epoch(self) -> int | None:
        return max(self.told, default=None)

    def write(self, batch: Batch) -> None:
        self.pending += rows_of(batch)

    def commit(self, epoch: int) -> int:
        pending, self.pending = self.pending, []
        known = self.told.setdefault(epoch, pending)
        assert known == pending, f"epoch {epoch} was repeated as {pending}, it was {known}"
        return len(pending)

    def close(self) -> None: ...


@dataclass
class Rows(base.Sink):
    """The same where no epoch is repeated."""

    told: list[Row]

    def last_epoch(self) -> int | None:
        return None

    def write(self, batch: Batch) -> None:
        self.told += rows_of(batch)

    def commit(self, epoch: int) -> int:
        return 0

    def close(self) -> None: ...


class Killed(BaseException):
    """The life ends here."""


class World:
    """What outlives a life: broker, store, files, clock, and what was seen outside."""

    def __init__(
        self,
        statement: Statement,
        folder: Path,
        out: Path,
        rows_per_read: int,
        on_disk: bool = False,
        executor: Callable[[], EmbeddedExecutor] = lambda: EmbeddedExecutor(OperatorFactory()),
    ) -> None:
        self.statement = statement
        self._executor = executor
        self.now = START
        self.steps = 0
        self.outcome = Outcome()
        self.counts: Counter[str] = Counter()
        self._folder, self._out = folder, out
        self._rows_per_read = rows_per_read
        self._on_disk = on_disk
        self._held = MemoryStore()
        self._memory = Memory()
        self._graph = merge(Graph(), {SCRIPT: statement.sinks})
        self._before = set(out.rglob("*"))
        self.broker = self._open_broker()

    def _open_broker(self) -> EmbeddedBroker:
        return EmbeddedBroker(self._folder / "topics", fsync="none", clock=lambda: self.now)

    def _store(self) -> CheckpointStore:
        return RocksStore(self._folder / "state") if self._on_disk else self._held

    def life(self) -> GraphRunner:
        """A life: the first begins, others take up where the last one ended."""
        if self._on_disk and self.steps:
            self.broker.close()
            self.broker = self._open_broker()
        runner = self._runner()
        assert runner.storage.checkpoints is not None
        position = runner.storage.checkpoints.position
        if position is not None:
            self._restore(runner, position)
        self.counts["replays"] += repeat_epochs(
            runner, lambda graph, change: self._change(runner, graph, change)
        )
        if runner.epoch == 0:
            runner.apply(runner.prepare(self._graph, {SCRIPT: 1}))
        return runner

    def _runner(self) -> GraphRunner:
        checkpoints = Checkpoints(self._store(), NEVER, NEVER)
        return GraphRunner(
            SCRIPT,
            self._executor(),
            Environment(self.broker, lambda: self.now, SCRIPT, lambda line: None, self._memory),
            GraphStorage(
                TopicEpochLog(self.broker, SCRIPT), checkpoints, DeadLetterSink(self.broker, SCRIPT)
            ),
            RunnerOptions(
                lambda owner: self.statement.fails,
                self._rows_per_read,
                result=_Result(self.outcome.rows),
            ),
        )

    def _restore(self, runner: GraphRunner, position: CheckpointMetadata) -> None:
        graph = merge(
            Graph(position.version - 1), {SCRIPT: self.statement.sinks}, position.stateful
        )
        with recovering(runner):
            change = runner.prepare(graph, position.jobs)
        restore(runner, position, change)

    def _change(self, runner: GraphRunner, graph: Graph, change: LoggedChange) -> GraphChange:
        return runner.prepare(
            merge(graph, {SCRIPT: self.statement.sinks}), change.jobs, change.renamed
        )

    def passes(self) -> None:
        """Time, as much in every run."""
        self.steps += 1
        assert self.steps < STEPS, "it never ends"
        self.now += _TICK_MS if self.steps % _DAYS_APART else _DAY_MS

    def end(self, runner: GraphRunner) -> None:
        """The end of a life: nothing but what is on disk is left of it."""
        self.outcome.late += sum(
            n.context.counters["late_rows"] for n in runner.executor.running.values()
        )
        runner.close()
        assert runner.storage.checkpoints is not None
        runner.storage.checkpoints.close()

    def close(self) -> Outcome:
        self.outcome.files = files_in(self._out, self._before)
        self.outcome.topics = {
            t.name: self._records(t.name) for t in self.broker.topics() if t.name != EPOCHS
        }
        self.broker.close()
        shutil.rmtree(self._folder)
        return self.outcome

    def _records(self, topic: str) -> list[bytes]:
        found: list[bytes] = []
        offset = 0
        while (records := self.broker.read(topic, 0, offset)) is not None:
            found += records.values.to_pylist()
            offset = records.next_offset
        return found


def files_in(out: Path, before: Collection[Path]) -> dict[str, str]:
    """What was written to files that were not there before, by folder."""
    found: dict[str, str] = {}
    for path in sorted(
        p for p in out.rglob("*") if p.is_file() and p not in before and p.name[0] != "."
    ):
        place = str(path.parent.relative_to(out))
        found[place] = found.get(place, "") + path.read_text()
    return found


def live(world: World, way: Way, apart: int = 1) -> Outcome:
    """All lives of the statement, to its end; so many epochs are each."""
    try:
        with _looking_for_late_rows(world.outcome):
            _lives(world, way, apart)
    except SqlError as error:
        world.outcome.error = str(error)
    world.counts["epochs"] += world.steps
    world.outcome.epochs = world.steps
    return world.close()


@contextmanager
def _looking_for_late_rows(outcome: Outcome) -> Iterator[None]:
    """Operators count those that are late for all that they wait for; a row may be late for some of
    its windows."""
    sound = WatermarkOperator.process

    def process(self: WatermarkOperator, port: int, batch: Batch) -> Output:
        output = sound(self, port, batch)
        for rows in (made for to, made in output if to == 0):
            times, valid = milliseconds(rows.column(self._node.watermark.column))
            outcome.late += int((valid & (times <= rows.watermarks())).sum())
        return output

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WatermarkOperator, "process", process)
        yield


def _lives(world: World, way: Way, apart: int) -> None:
    if way is Way.DRAINED:
        _drained(world)
        return
    runner = world.life()
    try:
        over = False
        while not over:
            over = runner.finished
            early = way.replays and world.steps % 2 == 1
            whole = not early or _dies_at_a_sink(runner, world.steps // 2)
            if not early:
                runner.step()
            world.passes()
            if way is Way.UNDISTURBED or (whole and world.steps % apart):
                continue
            if whole and world.steps % way.checkpoint_every == 0:
                runner.checkpoint(wait=True)
            world.end(runner)
            world.counts["kills"] += 1
            runner = world.life()
        runner.outputs.publish_overwrites()
    finally:
        world.end(runner)


def _drained(world: World) -> None:
    """Sources that go on for ever, as topics do, read as far as there is anything; then the drain,
    twice over."""
    runner = world.life()
    try:
        with _without_ends():
            while runner.step() or runner.inputs.wait_for_late(1.0):
                world.passes()
        for number in range(len(runner.outputs.running) + 1):
            _dies_at_a_sink(runner, number, runner.drain)
            world.end(runner)
            world.counts["kills"] += 1
            runner = world.life()
        runner.drain()
        assert runner.finished
        runner.outputs.publish_overwrites()
    finally:
        world.end(runner)


@contextmanager
def _without_ends() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Inputs, "ended", lambda self, chunks: sorted(self.unstarted))
        yield


def _dies_at_a_sink(
    runner: GraphRunner, number: int, step: Callable[[], object] | None = None
) -> bool:
    """A step that ends before one of the sinks has what the epoch gives it: others may have theirs.
    True where that sink gets nothing, and the step is done."""

    def commit(epoch: int) -> int:
        raise Killed

    sinks = list(runner.outputs.running.values())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sinks[number % len(sinks)], "commit", commit)
        try:
            (step or runner.step)()
        except Killed:
            return False
    return True
