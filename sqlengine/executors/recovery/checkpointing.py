"""Decides when a graph's checkpoint is taken, takes it, and discards what it made unnecessary."""

from __future__ import annotations

from collections.abc import Callable

from sqlengine.executors.epoch_writer import EpochWriter
from sqlengine.executors.pipeline import Pipeline
from sqlengine.executors.recovery.file_versions import FileVersions
from sqlengine.executors.sources import positions_of
from sqlengine.executors.storage import GraphStorage
from sqlengine.executors.subtask import SubtaskContext
from sqlengine.snapshots.checkpoints import CheckpointMetadata


class CheckpointTrigger:
    """The checkpoints of one graph, between its epochs and in its thread."""

    def __init__(
        self,
        pipeline: Pipeline,
        epochs: EpochWriter,
        storage: GraphStorage,
        clock: Callable[[], int],
        subtask: SubtaskContext | None,
    ) -> None:
        self._pipeline = pipeline
        self._epochs = epochs
        self._storage = storage
        self._clock = clock
        self._subtask = subtask
        self._versions = FileVersions(storage.first_record)

    def due(self) -> bool:
        """True if enough state has changed, or enough time has passed, since the last checkpoint.
        Never while a sink has not taken all rows, which must be repeated after a crash, nor while a
        source owes an answer."""
        now, checkpoints = self._clock(), self._storage.checkpoints
        if checkpoints is None or self._pipeline.outputs.uncommitted.owes_rows:
            return False
        due = checkpoints.due(self._epochs.last, self._pipeline.executor.tables, now)
        return due and not self._pipeline.inputs.late

    def take(self, *, wait: bool) -> None:
        """Copies what has changed and writes it in the background; with `wait` returns when it is
        in the store. Raises TryAgain while a sink has no space for an epoch before it, or a source
        owes an answer."""
        checkpoints, pipeline = self._storage.checkpoints, self._pipeline
        if checkpoints is None:
            return
        # No epoch before a checkpoint is repeated, so the output of all of them must be out.
        pipeline.outputs.committer.commit(self._epochs.last)
        pipeline.inputs.require_answers()
        write = checkpoints.finish if wait else checkpoints.begin
        write(self._metadata(), pipeline.executor.tables, self._clock())
        for source in pipeline.inputs.running.values():
            # With the positions as copied above: the graph's thread has processed nothing in
            # between.
            source.source.notify_checkpoint(source.positions)
        # The write goes on in the background: `stored` is an earlier checkpoint, unless `wait` is
        # set.
        stored = checkpoints.stored
        if stored is not None:
            self._versions.discard_before(stored, pipeline.inputs.running)
            if stored.tasks is not None:
                pipeline.executor.discard_before(stored.tasks)
            if self._subtask is not None:
                self._subtask.discard_before(stored)

    def _metadata(self) -> CheckpointMetadata:
        pipeline, running = self._pipeline, self._pipeline.inputs.running
        return CheckpointMetadata(
            graph=self._epochs.graph,
            epoch=self._epochs.last,
            version=pipeline.graph.version,
            log_offset=self._epochs.log_offset,
            positions=positions_of(running),
            ended=[name for name, source in running.items() if source.ended],
            unstarted=sorted(pipeline.inputs.unstarted),
            jobs=dict(pipeline.jobs),
            stateful={job: list(nodes) for job, nodes in pipeline.graph.stateful.items()},
            created_at_version=pipeline.executor.created_at_version(),
            began={name: (source.began_epoch, source.began) for name, source in running.items()},
            logged=self._storage.log.keeps_every_epoch,
            answers_offset=pipeline.outputs.call_log.end(),
            counts=pipeline.counter.counts(),
            resumed=list(pipeline.executor.firing.resumptions()),
            marks={name: dict(m) for name, s in running.items() if (m := s.source.marks())},
            tasks=pipeline.executor.task_state(),
        )
