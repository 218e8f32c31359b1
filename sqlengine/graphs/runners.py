"""Makes the runner of a graph and its checkpoints: where they read and write, and how much."""

from __future__ import annotations

from concurrent.futures import Executor

from planner.graph.distribution import WHOLE
from sqlengine.connectors.environment import Environment
from sqlengine.executors.dead_letters import DeadLetterSink
from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.executors.epochs import EPOCHS, ChangeLog, EndedEpochLog, EpochLog, TopicEpochLog
from sqlengine.executors.memory_limits import MemoryGuard
from sqlengine.executors.runner import GraphRunner
from sqlengine.executors.storage import GraphStorage, RunnerOptions
from sqlengine.executors.subtask import SubtaskContext
from sqlengine.graphs.apart import writer_of_graph
from sqlengine.graphs.host import GraphHost
from sqlengine.snapshots.checkpoints import Apart, Checkpoints
from sqlengine.state.store import CheckpointStore


def open_checkpoints(host: GraphHost, store: CheckpointStore, writer: Executor) -> Checkpoints:
    """Opens the checkpoints of a graph, which `writer` writes."""
    sync = host.broker.sync if host.syncs_late else None
    return Checkpoints(store, host.config.checkpoint_rows, host.config.checkpoint_ms, writer, sync)


def open_runner(
    graph: str,
    host: GraphHost,
    executor: EmbeddedExecutor,
    checkpoints: Checkpoints,
    subtask: SubtaskContext | None,
    apart: Apart | None,
) -> GraphRunner:
    """Opens the runner of a graph, or of one subtask. `apart`: what is known of a graph whose jobs
    waited for a source, which is repeated up to an epoch and no further."""
    # Subtasks rely on each other's epochs, so these are logged whatever is configured.
    once = subtask is not None or host.config.delivery == "exactly-once"
    dead_letters = DeadLetterSink(
        host.broker, graph, lambda: runner.jobs, 0 if apart is None else apart.letters
    )
    storage = GraphStorage(
        _epoch_log(graph, host, once, apart) if subtask is None else subtask.log,
        checkpoints,
        dead_letters,
        None if host.config.fsync == "none" else lambda: host.broker.begin_offset(EPOCHS, 0),
        host.tasks_folder(graph).as_uri(),
    )
    options = RunnerOptions(
        lambda owner: host.fails_on_error(owner, runner.jobs.get(owner, 0)),
        host.rows_per_epoch(graph),
        MemoryGuard(graph, host.memory),
        paced=True,
    )
    environment = _environment(graph, host, once, subtask)
    runner = GraphRunner(writer_of_graph(graph), executor, environment, storage, options, subtask)
    return runner


def _epoch_log(graph: str, host: GraphHost, once: bool, apart: Apart | None) -> EpochLog:
    if apart is not None:
        return EndedEpochLog(host.broker, writer_of_graph(graph), apart.until)
    return (TopicEpochLog if once else ChangeLog)(host.broker, graph)


def _environment(
    graph: str, host: GraphHost, once: bool, subtask: SubtaskContext | None
) -> Environment:
    config = host.config
    return Environment(
        host.broker,
        host.machine.clock,
        writer_of_graph(graph),
        disk=host.machine.disk,
        memory=host.memory_tables,
        callables=host.callables,
        assignment=WHOLE if subtask is None else subtask.assignment,
        once=once,
        auto_create=config.auto_create,
        openings=host.openings,
        files=config.file_access,
        network=config.network_access,
        secrets=config.secret_values,
        dimensions=config.dimensions,
        any_times=True,
        receivers=host.receivers,
    )
