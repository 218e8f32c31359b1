"""Recovers a graph after a crash: continues at its last checkpoint and repeats the epochs logged
since.

The same ranges, times and seeds give the same rows; sinks drop what they have already."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeAlias

from parser.errors import ServiceError
from planner.graph.merge import Graph
from sqlengine.executors.epochs import UNLOGGED, EpochRecord, LoggedChange
from sqlengine.executors.failures import SourceAway
from sqlengine.executors.graph_change import GraphChange
from sqlengine.executors.recovery.repeated_ranges import (
    RangeAway,
    RepeatedRanges,
    rewind_to_ends,
    sources_away,
)
from sqlengine.executors.runner import GraphRunner
from sqlengine.executors.spark.hand_back import tables_of_tasks
from sqlengine.snapshots.checkpoints import CheckpointMetadata

# Plans and prepares a logged change again, for the graph that runs before it.
PrepareChange: TypeAlias = Callable[[Graph, LoggedChange], GraphChange]


@contextmanager
def recovering(runner: GraphRunner) -> Iterator[None]:
    """Sources and sinks that cannot be opened do not stop a recovery: their jobs fail after it."""
    with runner.inputs.recovering(), runner.outputs.opener.recovering():
        yield


def restore(runner: GraphRunner, position: CheckpointMetadata, change: GraphChange) -> None:
    """Continues at a checkpoint: `change` brings the jobs of that time into an empty graph.

    ServiceError where an operator keeps other state than the checkpoint has for it."""
    runner.inputs.begin(change.sources, position.positions, position.marks)
    for name, source in change.sources.items():
        source.ended = name in position.ended
        source.began_epoch, source.began = position.began.get(name, (0, {}))
    from_tasks = position.tasks is not None and not runner.executor.in_tasks
    if from_tasks:
        _take_from_tasks(runner, position, change)
    # The sources have their positions before the switch, which emits the initial watermarks.
    runner.switch(change, position)
    if runner.executor.in_tasks:
        runner.executor.restore_tasks(position.tasks)
    if position.epoch:  # a savepoint does not say
        runner.executor.firing.restore(position.resumed)
    runner.pipeline.counter.restore(position.counts)
    if not position.epoch:  # nor what its jobs have counted
        runner.pipeline.counter.begin(position.jobs)
    # What was with tasks is in no table of the store: the next checkpoint has all of it.
    if runner.storage.checkpoints is not None and not from_tasks:
        runner.storage.checkpoints.adopt(runner.executor.tables)
    runner.inputs.unstarted = set(position.unstarted)
    runner.epochs.seek(position.epoch, position.log_offset)
    runner.outputs.call_log.start = position.answers_offset


def _take_from_tasks(
    runner: GraphRunner, position: CheckpointMetadata, change: GraphChange
) -> None:
    """Reads the state that tasks of Spark have kept, for a graph that goes on without them."""
    assert position.tasks is not None
    checkpoints, folder = runner.storage.checkpoints, runner.storage.tasks
    if checkpoints is None or folder is None:
        raise ServiceError("the checkpoint was written by tasks of Spark")
    plan, created = change.prepared.plan, position.created_at_version
    checkpoints.restored = tables_of_tasks(folder, position.tasks, plan, created)


def repeat_epochs(
    runner: GraphRunner,
    prepare: PrepareChange,
    before: Callable[[int], None] = lambda _: None,
    *,
    tolerates_lost: bool = False,
) -> int:
    """Repeats the epochs logged since the checkpoint; returns their number. `before` is called with
    the number of each, when all earlier ones are complete. `tolerates_lost`: a power loss may have
    taken records that they have read.

    ServiceError where the log has a gap, or answers of nondeterministic functions are gone;
    SourceAway where a range cannot be read now."""
    call_log = runner.outputs.call_log
    call_log.load()
    ranges = RepeatedRanges(runner.inputs, tolerates_lost=tolerates_lost)
    try:
        runner.repeating = True
        with recovering(runner):
            repeated = 0
            for record in _logged(runner, before):
                with runner.broken_on_failure(f"repeats epoch {record.epoch}"), _waiting(runner):
                    _repeat(runner, record, prepare, ranges)
                repeated += 1
            return repeated
    except BaseException:
        runner.broken = True
        raise
    finally:
        runner.repeating = False
        call_log.forget()


@contextmanager
def _waiting(runner: GraphRunner) -> Iterator[None]:
    """Raises SourceAway where the body cannot read a range now: also for the jobs of other sources
    that could not be opened, which would be the next."""
    try:
        yield
    except RangeAway as away:
        nodes = runner.executor.plan.nodes
        jobs = (nodes[name].jobs for name in {away.source, *sources_away(runner.inputs)})
        raise SourceAway(frozenset().union(*jobs), away.error) from away


def skip_unlogged_epochs(runner: GraphRunner, *, logged: bool, known: int) -> None:
    """Ends a recovery where epochs may be missing from the log: a power loss may have taken the end
    of any topic, they were not `logged` at all, or tables have later ones (`known`).

    Numbers continue after all that a sink can know: otherwise it would drop the rows of new epochs
    as repeated ones. Reading continues at the ends of what is left. A checkpoint keeps the epochs
    before from being repeated with records that come now."""
    with runner.broken_on_failure("continues at the ends of its sources"):
        after = runner.epoch if logged else UNLOGGED
        runner.epochs.skip(runner.graph.version, known, after)
        rewind_to_ends(runner.inputs)
    runner.checkpoint(wait=True, forced=True)


def _logged(runner: GraphRunner, before: Callable[[int], None]) -> Iterator[EpochRecord]:
    """Yields the records after the checkpoint. When one is yielded, the runner is at its epoch."""
    for offset, record in runner.storage.log.read(runner.epochs.log_offset):
        # Its effects are in the checkpoint.
        if record.epoch <= runner.epoch:
            continue
        if record.epoch > runner.epoch + 1 and record.after not in (UNLOGGED, runner.epoch):
            raise ServiceError(
                f"the epoch log of graph '{runner.name}' has a gap between {runner.epoch} and"
                f" {record.epoch}",
                hint="it was shortened by hand, or the graph's checkpoint was removed",
            )
        before(record.epoch)
        # Before the epoch is repeated: its commits are made under its own number, by which sinks
        # drop what they have.
        runner.epochs.seek(record.epoch, offset)
        yield record


def _repeat(
    runner: GraphRunner, record: EpochRecord, prepare: PrepareChange, ranges: RepeatedRanges
) -> None:
    if record.change is not None:
        _repeat_change(runner, record.epoch, record.change, prepare)
    elif record.replay is not None:
        for row in record.replay.rows:
            if row.record is None:
                ranges.require(row.source)
        with runner.outputs.call_log.recording(record.epoch):
            runner.pipeline.process_replay(record)
        runner.commit()
    else:
        _repeat_rows(runner, record, ranges)


def _repeat_change(
    runner: GraphRunner, epoch: int, logged: LoggedChange, prepare: PrepareChange
) -> None:
    change = prepare(runner.graph, logged)
    runner.inputs.begin(change.sources, logged.starts, change.marks)
    for name, source in change.sources.items():
        source.began, source.began_epoch = dict(logged.starts.get(name, {})), epoch
    runner.switch(change)


def _repeat_rows(runner: GraphRunner, record: EpochRecord, ranges: RepeatedRanges) -> None:
    """Repeats an epoch of rows, without sources of jobs that cannot be planned any more."""
    inputs = runner.inputs
    opened = tuple(o for o in record.opened if o[0] in inputs.running)
    ended = tuple(n for n in record.ended if n in inputs.running or n in inputs.unstarted)
    closed = tuple(c for c in record.closed if c[0] in inputs.running)
    for name, shard in opened:
        ranges.open_shard(name, shard)
    chunks = [chunk for part in record.ranges for chunk in ranges.read(part)]
    with runner.outputs.call_log.recording(record.epoch):
        runner.pipeline.process(replace(record, opened=opened, ended=ended, closed=closed), chunks)
    runner.commit()
