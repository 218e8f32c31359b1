"""After a crash: a graph takes up where its last checkpoint was made, and repeats the epochs
recorded since.

The same ranges, times and seeds give the same rows; sinks drop what they have already."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from parser.errors import ServiceError
from planner.graph.merge import Graph
from sqlengine.executors.epochs import UNLOGGED, EpochRecord, LoggedChange
from sqlengine.executors.graph_change import GraphChange
from sqlengine.executors.runner import GraphRunner
from sqlengine.snapshots.checkpoints import Position

# More epochs than there can be between two syncs, or two checkpoints.
_ROOM = 1 << 24


@contextmanager
def recovering(runner: GraphRunner) -> Iterator[None]:
    """Sources and sinks that cannot be opened any more do not stop a recovery: their jobs fail when
    it is over."""
    with runner.inputs.recovering(), runner.outputs.recovering():
        yield


def restore(runner: GraphRunner, position: Position, change: GraphChange) -> None:
    """Takes up where a checkpoint was made: `change` brings the jobs of that time into an empty
    graph."""
    runner.inputs.begin(change.sources, position.positions)
    for name, source in change.sources.items():
        source.ended = name in position.ended
        source.began_epoch, source.began = position.began.get(name, (0, {}))
    runner.switch(change, position)
    if runner.checkpoints is not None:
        runner.checkpoints.adopt(runner.executor.tables)
    runner.inputs.unstarted = set(position.unstarted)
    runner.epoch, runner.log_offset = position.epoch, position.log_offset
    runner.answers_offset = position.answers_offset


def repeat_epochs(
    runner: GraphRunner, change_for: Callable[[Graph, LoggedChange], GraphChange]
) -> int:
    """Repeats the epochs recorded since the checkpoint; gives their number. `change_for` plans job
    versions."""
    call_log = runner.outputs.call_log
    call_log.load(runner.answers_offset)
    try:
        runner.repeating = True
        with runner.broken_on_failure(), recovering(runner):
            return sum(_repeat(runner, record, change_for) for record in _recorded(runner))
    finally:
        runner.repeating = False
        call_log.forget()


def skip_unlogged_epochs(runner: GraphRunner, *, logged: bool) -> None:
    """After a recovery where epochs are not in the log: a loss of power may have taken the end of
    any topic, and of others not, or they were not `logged`.

    Epochs go on behind any that a sink can know: or else it would take the next ones for repeated
    ones, and drop their rows. Reading goes on at the ends of what is left; a checkpoint keeps the
    epochs before from being repeated with records that come now."""
    with runner.broken_on_failure():
        runner.skip_epochs(_ROOM, runner.epoch if logged else UNLOGGED)
        runner.inputs.rewind_to_ends()
    runner.checkpoint(wait=True)


def _recorded(runner: GraphRunner) -> Iterator[EpochRecord]:
    """Records behind the checkpoint, without a gap; the runner stands at each when it is given."""
    for offset, record in runner.log.read(runner.log_offset):
        if record.epoch <= runner.epoch:
            continue
        if record.epoch > runner.epoch + 1 and record.after not in (UNLOGGED, runner.epoch):
            raise ServiceError(
                f"the epoch log of graph '{runner.name}' has a gap between {runner.epoch} and"
                f" {record.epoch}",
                hint="it was shortened by hand, or the graph's checkpoint was removed",
            )
        runner.log_offset, runner.epoch = offset, record.epoch
        yield record


def _repeat(
    runner: GraphRunner,
    recorded: EpochRecord,
    change_for: Callable[[Graph, LoggedChange], GraphChange],
) -> int:
    if recorded.change is not None:
        change = change_for(runner.graph, recorded.change)
        runner.inputs.begin(change.sources, recorded.change.starts)
        for name, source in change.sources.items():
            source.began, source.began_epoch = (
                dict(recorded.change.starts.get(name, {})),
                recorded.epoch,
            )
        runner.switch(change)
    elif recorded.replay is not None:
        with runner.outputs.call_log.recording(recorded.epoch):
            runner.process_replay(recorded)
        runner.commit()
    else:
        _repeat_rows(runner, recorded)
    return 1


def _repeat_rows(runner: GraphRunner, recorded: EpochRecord) -> None:
    """Without the sources of jobs that cannot be planned any more."""
    inputs = runner.inputs
    opened = tuple(o for o in recorded.opened if o[0] in inputs.running)
    ended = tuple(n for n in recorded.ended if n in inputs.running or n in inputs.unstarted)
    for name, shard in opened:
        inputs.running[name].positions[shard] = 0
    chunks = [chunk for part in recorded.ranges for chunk in inputs.read_range(part)]
    with runner.outputs.call_log.recording(recorded.epoch):
        runner.process(replace(recorded, opened=opened, ended=ended), chunks)
    runner.commit()
