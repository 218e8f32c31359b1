"""The sources, operators and sinks of one graph: one plan that runs, and the switch to another.

Epoch logs and checkpoints are the runner's (`runner.py`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from planner.graph.distribution import with_exchange_times
from planner.graph.merge import Graph
from planner.graph.physical import lower
from sqlengine.connectors.chunks import Chunk
from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.executors.epochs import EpochRecord
from sqlengine.executors.graph_change import GraphChange, RestoredJob
from sqlengine.executors.inputs import Inputs
from sqlengine.executors.job_counts import JobCounter
from sqlengine.executors.outputs import Outputs
from sqlengine.executors.prepared_plan import InitialState
from sqlengine.executors.replays import push_replayed
from sqlengine.executors.subtask import SubtaskContext
from sqlengine.executors.time_events import TimeEvents, sources_needing_initial_watermark


class Pipeline:
    """Graph thread only, but for `prepare`.

    `graph` is the plan that runs, `jobs` the running version of each job, `counter` what they
    did."""

    def __init__(
        self,
        executor: EmbeddedExecutor,
        inputs: Inputs,
        outputs: Outputs,
        subtask: SubtaskContext | None,
    ) -> None:
        self.graph = Graph()
        self.jobs: dict[str, int] = {}
        self.executor = executor
        self.inputs = inputs
        self.outputs = outputs
        self.counter = JobCounter(executor, outputs.progress)
        self._subtask = subtask
        self._times = TimeEvents(executor, inputs, outputs)

    # ---- epochs ----------------------------------------------------------------------------------

    def process(self, record: EpochRecord, chunks: Iterable[tuple[str, Chunk]]) -> None:
        """Pushes the rows of an epoch through the operators. Output waits in the sinks for
        `outputs.committer`."""
        self.executor.begin(record)
        for resumption in record.resumed:
            self.executor.resume(resumption, record.proctime, record.seed, self.outputs.write)
        # Before any rows: until a new shard is known to the watermark, it cannot hold it back.
        for name, shard in record.opened:
            if not self.inputs.running[name].continues(shard, record.opened):
                self._times.emit_initial_watermark_of(name, shard)
        chunks = tuple(chunks)
        read = {name for name, _ in chunks}
        if record.tick:
            self._times.tick(record, self.inputs.running.keys() - read)
            self._times.tick_values(record)
        for name, chunk in chunks:
            source = self.inputs.running[name]
            self.executor.read(source, name, chunk, record, self.outputs.write)
            # Only after the push: positions and state stay together, and a checkpoint copies both.
            source.positions[chunk.shard] = chunk.end
            self.outputs.progress.rows_in += chunk.num_rows
            self.outputs.progress.rows_read[name] += chunk.num_rows
        if record.tick:
            # After the rows: a shard that has just delivered some is not idle.
            self._times.tick(record, read)
        for name, shard in record.closed:
            self.inputs.running[name].close_shards([shard])
        # After the rows and ticks: the last watermark fires all windows, so that nothing may follow
        # it.
        for name in record.ended:
            self._times.end(name, record)
        self.executor.flush(self.outputs.write)
        elsewhere = self.executor.end()
        self.outputs.progress.rows_in += elsewhere
        self.outputs.progress.rows_read[""] += elsewhere
        self.outputs.progress.epochs += 1
        self.outputs.handle_errors(self.executor.take_errors())

    def process_replay(self, record: EpochRecord) -> None:
        """Pushes the dead letters of a replay through operators of their own: those of the job's
        statements that did not see them."""
        replay = record.replay
        assert replay is not None
        # A statement that has seen a record must not see it again: records are grouped by those
        # that did not.
        for places in dict.fromkeys(row.places for row in replay.rows):
            rows = [row for row in replay.rows if row.places == places]
            errors, written = push_replayed(
                self.executor.factory, self.graph, self.inputs, rows, record, self.outputs.write
            )
            self.executor.counts.add(replay.job, written)
            self.outputs.handle_errors(errors)
        self.outputs.mark_replayed(replay, record.proctime)

    # ---- changes of the plan ---------------------------------------------------------------------

    def prepare(
        self, graph: Graph, jobs: Mapping[str, int], renamed: Mapping[str, str]
    ) -> GraphChange:
        """Builds the operators of `graph` that do not run yet and opens its new sources and sinks,
        in the thread that makes changes. SqlError leaves everything as it was."""
        plan = lower(graph, self.executor.plan)
        prepared = self.executor.prepare(
            plan if self._subtask is None else self._subtask.distribute(plan)
        )
        sources = self.inputs.open(prepared.plan, prepared.new_nodes)
        try:
            sinks = self.outputs.open(prepared.plan)
        except BaseException:
            for source in sources.values():
                source.source.close()
            raise
        return GraphChange(graph, prepared, jobs, sources, sinks, renamed)

    def switch(
        self,
        change: GraphChange,
        checkpoint: InitialState | None = None,
        *,
        watermarks_known: bool = False,
    ) -> None:
        """Replaces the running plan by that of a prepared change.

        `checkpoint`: the state from which its operators start, in a recovery; with
        `watermarks_known` that includes the watermarks of their inputs."""
        self.executor.tell_missed(change.prepared, self.outputs.write)
        self.executor.switch(change.prepared, self._initial_state(change, checkpoint))
        self._set_graph(change)
        self.inputs.switch(change.prepared.plan, change.sources, change.prepared.new_nodes)
        self.inputs.apply_filters(self.executor.set_scan_filters(self.inputs.filtering))
        self.outputs.switch(change.prepared.plan, change.sinks, moved=change.moved)
        if change.restored is not None:
            self._take_over(change.restored, change.sources.keys())
        # A job that comes from another graph brings its watermarks. Other subtasks must still be
        # told of them.
        if not watermarks_known and (change.restored is None or self._subtask is not None):
            running = self.inputs.running
            for name in sources_needing_initial_watermark(self.graph, change, running):
                self._times.emit_initial_watermarks(name)
        self.executor.flush(self.outputs.write)

    def _initial_state(self, change: GraphChange, checkpoint: InitialState | None) -> InitialState:
        restored = change.restored
        if restored is not None:
            return InitialState(restored.tables, restored.created_at_version)
        if checkpoint is not None:
            return checkpoint
        inherited = change.inherited
        if self._subtask is not None:
            inherited = with_exchange_times(inherited, change.prepared.plan)
        return InitialState(inherited=inherited)

    def _set_graph(self, change: GraphChange) -> None:
        self.graph = change.graph
        if self._subtask is not None:
            self._subtask.shuffle.version = change.graph.version
        self.counter.begin(change.jobs)
        jobs = {**self.jobs, **change.jobs}
        for job, version in change.jobs.items():
            if not version:
                del jobs[job]
        self.jobs = jobs

    def _take_over(self, job: RestoredJob, new_sources: Collection[str]) -> None:
        self.outputs.uncommitted.add_pending(job.pending_commits)
        self.inputs.unstarted -= job.emitted_values
        for name in job.ended.intersection(new_sources):
            self.inputs.running[name].ended = True

    def close(self) -> None:
        """Closes sources, sinks and operators."""
        self.inputs.close()
        self.outputs.close()
        self.executor.close()
