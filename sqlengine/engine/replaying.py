"""Replay of dead letters: their records go through a job again, after the job or its table was
fixed.

A letter is replayed once for each job, in one epoch of the job's graph, which a recovery repeats
like any other. Only statements that did not see the row get it; what cannot be replayed exactly is
refused with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import pyarrow as pa

from parser.errors import JobError, Position
from planner.catalog import Table
from planner.logical import AssignWatermark, Filter, LogicalPlan, Project, Scan, Sink, Union
from planner.scalar import Scalar, find_position, walk
from sqlengine.connectors.base import Source
from sqlengine.engine.dead_letters import DeadLetter, DeadLetterFilter, DeadLetterQueue
from sqlengine.engine.graph_manager import GraphManager
from sqlengine.executors.dead_letters import stored
from sqlengine.executors.epochs import Replay, ReplayedRecord
from sqlengine.executors.replays import read_record, statements_of
from sqlengine.executors.sources import RunningSource
from sqlengine.formats.registry import decoder_for, decodes_keys, with_any_times
from sqlengine.graphs.running import RunningGraph
from sqlengine.jobs.job import JobState
from sqlengine.jobs.planning import PlannedJob
from sqlengine.operators.dead_letters import MAX_PAYLOAD
from sqlengine.registry import Registry

MAX_LETTERS = 1_000
_LINEAR = (Scan, AssignWatermark, Filter, Project, Sink)


@dataclass(frozen=True)
class Refusal:
    """A letter that is not replayed, and why."""

    letter: int
    reason: str


@dataclass(frozen=True)
class Replayed:
    """The result of a replay: `letters` went through the job in `epoch` (0: none), `refused` did
    not. `failed`: the new letters of rows that failed again."""

    letters: tuple[int, ...]
    refused: tuple[Refusal, ...]
    epoch: int = 0
    failed: tuple[int, ...] = ()


def _replay_in(graph: RunningGraph, replay: Replay) -> int:
    """Runs the epoch of a replay; returns its number."""
    graph.runner.replay(replay)
    return graph.runner.epoch


class Replays:
    """Replays dead letters. All methods are called from the thread that makes changes."""

    def __init__(self, registry: Registry, graphs: GraphManager, letters: DeadLetterQueue) -> None:
        self._registry = registry
        self._graphs = graphs
        self._letters = letters
        self._positions: dict[tuple[str, int, str], Position | None] = {}

    def replay(
        self, name: str, ids: Sequence[int] | None, limit: int, *, dry_run: bool = False
    ) -> Replayed:
        """Replays those of the job's letters that have not been, oldest first, at most `limit`. In
        a `dry_run` none is.

        Raises JobError if the job does not run, or runs in instances.
        """
        job = self._registry.job(name)
        if job.state is not JobState.RUNNING:
            raise JobError(
                f"job '{name}' does not run",
                detail=f"it is {job.state.value}",
                hint="start it first",
            )
        graph = self._graphs.local_graph_of(name, "a replay")
        wanted = DeadLetterFilter(
            job=name, tables=job.uses + job.defines, ids=None if ids is None else frozenset(ids)
        )
        rows: list[ReplayedRecord] = []
        refused: list[Refusal] = []
        letters = list(self._waiting(wanted, name, max(0, min(limit, MAX_LETTERS))))
        old = {v: self._plan(name, v) for v in {x.version for x in letters if x.job == name}}
        for letter in letters:
            candidate = _Candidate(
                letter,
                statements_of(graph.runner.graph, name),
                old,
                graph.name,
                graph.runner.inputs.running,
            )
            try:
                rows.append(candidate.replayed_record())
            except JobError as error:
                refused.append(Refusal(letter.id, error.message))
        done = tuple(r.letter for r in rows)
        if dry_run or not rows:
            return Replayed(done, tuple(refused))
        replay = Replay(name, job.version, tuple(rows))
        epoch = graph.loop.call(lambda: _replay_in(graph, replay))
        came = self._letters.read(replace(wanted, ids=None), after=max(done))
        failed = tuple(x.id for x in came if x.graph == graph.name and x.epoch == epoch)
        return Replayed(done, tuple(refused), epoch, failed)

    def position_of(self, letter: DeadLetter) -> Position | None:
        """Returns the position of the letter's expression in the text of its job's version."""
        key = letter.job, letter.version, letter.subject
        if key not in self._positions:
            if len(self._positions) >= MAX_LETTERS:
                self._positions.clear()
            self._positions[key] = find_expression(
                self._plan(letter.job, letter.version), letter.subject
            )
        return self._positions[key]

    def _waiting(self, wanted: DeadLetterFilter, job: str, limit: int) -> Iterator[DeadLetter]:
        waiting = (x for x in self._letters.read(wanted) if job not in self._letters.replayed(x.id))
        return islice(waiting, limit)

    def _plan(self, job: str, version: int) -> tuple[Sink, ...]:
        """Returns the statements of a version; none if it cannot be planned any more."""
        if version not in self._registry.log.versions_of(job):
            return ()
        plan = self._registry.plans_of({job: version})[job]
        return plan.sinks if isinstance(plan, PlannedJob) else ()


@dataclass(frozen=True)
class _Candidate:
    """A letter that may be replayed. `sinks`: the job's statements as they run; `old`: those of its
    versions."""

    letter: DeadLetter
    sinks: Sequence[Sink]
    old: Mapping[int, tuple[Sink, ...]]
    graph: str
    sources: Mapping[str, RunningSource]

    def replayed_record(self) -> ReplayedRecord:
        """Returns the record, and the statements that get it. Raises JobError if it cannot be
        replayed exactly."""
        letter = self.letter
        if letter.shard is None or letter.offset is None:
            raise JobError("only the row's values are known, not the record that it came from")
        chosen = self._readers() if not letter.job else self._losers()
        if not chosen:
            raise JobError(f"no statement of the job reads table '{letter.table}' any more")
        scan = scan_of(chosen[0])
        if any(scan_of(s).digest != scan.digest for s in chosen):
            raise JobError("statements of the job read the table by different definitions")
        source = self._source(scan)
        self._check_unread(source, letter.shard, letter.offset)
        record = self._record(scan, source.source, letter.shard, letter.offset)
        return ReplayedRecord(
            letter.id,
            scan.digest,
            letter.shard,
            letter.offset,
            record,
            tuple(s.place for s in chosen),
        )

    def _readers(self) -> list[Sink]:
        """Returns all statements over the table: no job has seen a malformed record."""
        chosen = [s for s in self.sinks if any(self._is_table(p) for p in operations_of(s))]
        for sink in chosen:
            if any(p.stateful for p in operations_of(sink)):
                raise JobError(_STATE)
            if any(isinstance(p, Union) or len(p.inputs) > 1 for p in operations_of(sink)):
                raise JobError(
                    "the statement reads several inputs, and the others have their rows already"
                )
        return chosen

    def _losers(self) -> list[Sink]:
        """Returns the present form of the statements that lost the row; others have written
        theirs."""
        old = self.old.get(self.letter.version, ())
        # By the failed expression; with a single statement there is no doubt anyway.
        lost = [s for s in old if self._names(s)] or (list(old) if len(old) == 1 else [])
        if not lost:
            raise JobError("it is not known which statement of the job lost the row")
        chosen = [now for s in lost if (now := self._current(s, old)) is not None]
        if len(chosen) < len(lost):
            raise JobError("the statement that lost the row is not in the job any more")
        for plan in (p for s in (*lost, *chosen) for p in operations_of(s)):
            if plan.stateful:
                raise JobError(_STATE)
            if not isinstance(plan, _LINEAR):
                raise JobError(
                    "the statement makes several rows of one, or reads several inputs: some are"
                    " written already"
                )
        return chosen

    def _is_table(self, plan: LogicalPlan) -> bool:
        return isinstance(plan, Scan) and ".".join(plan.table.name) == self.letter.table

    def _names(self, sink: Sink) -> bool:
        """True if the statement has the expression that failed."""
        return any(self.letter.subject in expression_texts(p) for p in operations_of(sink))

    def _current(self, sink: Sink, old: Sequence[Sink]) -> Sink | None:
        """Returns the statement in the job's present version: by its target table, and by its
        number among several with that target."""
        mine = [s for s in old if _target(s) == _target(sink)]
        # With another number of statements for the target, their numbers do not correspond any
        # more.
        same = [s for s in self.sinks if _target(s) == _target(sink)]
        return same[mine.index(sink)] if len(same) == len(mine) else None

    def _source(self, scan: Scan) -> RunningSource:
        if stored(scan.table.options) != self.letter.stored:
            raise JobError(
                f"table '{self.letter.table}' is not kept in '{self.letter.stored}' any more"
            )
        if scan.digest not in self.sources:
            raise JobError(f"table '{self.letter.table}' cannot be read")
        return self.sources[scan.digest]

    def _check_unread(self, source: RunningSource, shard: str, offset: int) -> None:
        """Raises JobError if the job has begun anew before the record since: then it has read it
        again by itself."""
        same = self.letter.graph == self.graph and source.began_epoch <= self.letter.epoch
        if not same and source.began.get(shard, 0) <= offset:
            raise JobError("the job has read the record again by itself since")

    def _record(self, scan: Scan, source: Source, shard: str, offset: int) -> bytes | None:
        """Returns the bytes of the record. None if its metadata are needed: it is read from the
        source then, in each recovery too."""
        chunk = read_record(source, shard, offset)
        if chunk is None:
            record = self._payload()
            if record is None or _needs_source(scan.table):
                raise JobError(f"'{self.letter.stored}' does not keep the record any more")
        else:
            assert chunk.records is not None
            record = chunk.records[0].as_py()
        if (
            self.letter.job
            and decoder_for(with_any_times(scan.table))
            .decode(pa.array([record], pa.binary()))
            .num_rows
            != 1
        ):
            raise JobError("the record holds several rows, or none that can be read")
        return None if _needs_source(scan.table) else record

    def _payload(self) -> bytes | None:
        """Returns a malformed record as the letter has it; None if that is not all of it."""
        payload = self.letter.payload.encode()
        # Letters of other rows have the values of the row in place of the record.
        raw = self.letter.place == f"{self.letter.shard}@{self.letter.offset}"
        whole = raw and len(payload) < MAX_PAYLOAD and "\ufffd" not in self.letter.payload
        return payload if whole else None


_STATE = (
    "the statement keeps state, which has gone on without the row: only statements without state"
    " are replayed"
)


def operations_of(sink: Sink) -> Iterator[LogicalPlan]:
    """Yields the operations of a statement, the sink first."""
    waiting: list[LogicalPlan] = [sink]
    while waiting:
        plan = waiting.pop()
        yield plan
        waiting += plan.inputs


def scan_of(sink: Sink) -> Scan:
    """Returns the scan of a statement that reads a single table."""
    return next(p for p in operations_of(sink) if isinstance(p, Scan))


def _target(sink: Sink) -> object:
    return sink.table.name if sink.table is not None else None


def expressions(plan: LogicalPlan) -> tuple[Scalar, ...]:
    if isinstance(plan, Filter):
        return (plan.predicate,)
    return tuple(e for _, e in plan.items) if isinstance(plan, Project) else ()


def expression_texts(plan: LogicalPlan) -> set[str]:
    """Returns the texts by which letters name expressions of the operation: each expression, its
    parts, and all items of a projection together."""
    own = expressions(plan)
    return {", ".join(map(str, own)), *(str(part) for e in own for part in walk(e))}


def find_expression(sinks: Iterable[Sink], subject: str) -> Position | None:
    """Returns the position of the expression that a letter names; None if there is none.

    An operation that jobs share knows its position in one of the texts only.
    """
    for plan in (p for s in sinks for p in operations_of(s)):
        own = expressions(plan)
        for e in (part for item in own for part in walk(item)):
            if str(e) == subject:
                return find_position(e)
        if own and subject == ", ".join(map(str, own)):
            return find_position(own[0])
    return None


def _needs_source(table: Table) -> bool:
    """True if the bytes of a record alone do not make its rows."""
    return bool(table.metadata) or decodes_keys(table)
