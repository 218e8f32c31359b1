"""Pushes batches through the operators of one graph, in topological order."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from planner.graph.physical import Edge, PhysicalNode
from planner.logical import LogicalPlan
from sqlengine.batch import Batch, Writers, empty, merge_runs
from sqlengine.executors.containment import PortBatch, run_contained
from sqlengine.executors.dataflow.running_node import RunningFamilies, RunningNode
from sqlengine.executors.dataflow.timers import Timers
from sqlengine.executors.dead_letters import with_source
from sqlengine.executors.failures import FamilyFailed, OperatorFailed
from sqlengine.executors.measures.row_counts import RowCounts
from sqlengine.executors.steps.guard import StepGuard
from sqlengine.executors.ticks.branches import Missed
from sqlengine.operators.base import ERROR_PORT, FATAL_ERROR_PORT, Output

# Rows of one operator's output, or of all buffered inputs, that wait at most: long ones count as
# several, one for each so many bytes (as a power of two).
_ROWS = 1 << 18
_ROW_BITS = 8

SinkWrite = Callable[[str, Batch], None]


@dataclass(frozen=True)
class WaitingInput:
    """The input that waits for nodes behind `source`. `queue`: these nodes, a heap by rank. Rows
    for sinks go to `write`."""

    source: str
    write: SinkWrite
    inputs: dict[str, list[PortBatch]] = field(default_factory=dict)
    queue: list[tuple[int, str]] = field(default_factory=list)

    def add(self, node: PhysicalNode, port: int, batch: Batch) -> None:
        """Adds input of a node."""
        if node.id not in self.inputs:
            self.inputs[node.id] = []
            # Queued once, with its first input: by the order of ranks all producers have run when
            # it is popped.
            heapq.heappush(self.queue, (node.rank, node.id))
        self.inputs[node.id].append((port, batch))


class Flow:
    """The way of rows through the operators of one graph, which are `running`. `guard` knows which
    of them runs; `counts` and `timers` follow; `missed` are ticks that come before all else.
    `families`: the plan with families that runs. `errors`: rows in error, by port."""

    def __init__(
        self,
        running: Mapping[str, RunningNode],
        guard: StepGuard,
        counts: RowCounts,
        timers: Timers,
        missed: list[Missed],
        families: RunningFamilies,
    ) -> None:
        self._running = running
        self._guard = guard
        self._counts = counts
        self._timers = timers
        self._missed = missed
        self._families = families
        self.errors: Output = []
        # Input of nodes that take an epoch's batches together, until `flush`.
        self._buffered: dict[str, list[PortBatch]] = {}
        self._buffered_rows = 0

    def push(self, node: str, batch: Batch, write: SinkWrite) -> None:
        """Gives a batch to input 0 of a node, and what comes out to the nodes behind it. Rows for
        sinks go to `write`, those in error to `errors`.

        Nodes run in topological order, so each sees all input of this batch at once. Nodes that
        take an epoch's input together wait for `flush`, or until many rows are buffered."""
        self._run(self._waiting(node, [(0, batch)], write))
        if self._buffered_rows >= _ROWS:
            self.flush(write)

    def flush(self, write: SinkWrite) -> None:
        """Runs the nodes that take an epoch's input together over what is buffered for them. Those
        with state `gather` it; the others get few batches of many rows."""
        while self._buffered:
            # Producers first: running a node may fill the buffers of those behind it.
            name = min(self._buffered, key=lambda n: (self._running[n].node.rank, n))
            inputs = self._buffered.pop(name)
            if not self._running[name].context.stateful:
                inputs = [(0, batch) for batch in merge_runs([b for _, b in inputs])]
            self._run(self._waiting(name, inputs, write))
        self._buffered_rows = 0

    def push_output(self, node: str, batch: Batch, write: SinkWrite) -> None:
        """Gives a batch to the nodes behind a node, as if it had come out of it."""
        work = WaitingInput(node, write)
        self._route(self._running[node], 0, batch, work)
        self._run(work)

    def _waiting(self, node: str, inputs: list[PortBatch], write: SinkWrite) -> WaitingInput:
        return WaitingInput(node, write, {node: inputs}, [(self._running[node].node.rank, node)])

    def _run(self, work: WaitingInput) -> None:
        """Runs the nodes that have input."""
        try:
            while work.queue:
                _, name = heapq.heappop(work.queue)
                current = self._running[name]
                outer = self._guard.enter(current.node)
                self._timers.ran(name)
                self._run_node(current, current.in_turn(work.inputs.pop(name)), work)
                self._guard.leave(outer)
        except OperatorFailed as error:
            self._guard.interrupts.permitted = False
            self._guard.interrupts.take_back()
            family = self._families.run.nodes.get(error.node)
            raise error if family is None else FamilyFailed(family.id, str(error)) from error
        except BaseException:
            # What is undone from here on is not the operator's. First a plain write: a call could
            # be interrupted before it.
            self._guard.interrupts.permitted = False
            self._guard.interrupts.take_back()
            raise

    def _run_node(self, current: RunningNode, inputs: list[PortBatch], work: WaitingInput) -> None:
        """Runs a node over its input, and hands on what comes out.

        An operator may produce more rows than memory should hold (a join of one key, say). Each
        time `_ROWS` of them have come out, the nodes behind it run first, as if its output were
        several batches."""
        rows = 0
        streams = run_contained(current.node, current.operator, current.context.stateful, inputs)
        for port, result in chain.from_iterable(streams):
            self._guard.emitted(result.num_rows)
            if self._missed:
                self.tell_missed(work.write)
            if rows >= _ROWS:
                self._run(work)
                rows = 0
            rows += _weight(result)
            if port in (ERROR_PORT, FATAL_ERROR_PORT):
                family = self._families.run.nodes.get(current.node.id)
                source = self._running[work.source].node
                letters = with_source(result, current.node, source, family)
                self.errors.append((port, letters))
            else:
                self._route(current, port, result, work)
            self._guard.resume()

    def tell_missed(self, write: SinkWrite) -> None:
        """Gives operators the ticks that they have missed: nothing comes of these, but it does of
        what follows."""
        missed, work = tuple(self._missed), WaitingInput("", write)
        self._missed.clear()
        for name, port, moment in missed:
            for edge in self._running[name].node.edges.get(port, ()):
                target = self._running.get(edge.target)
                if target is None or not isinstance(target.node.plan, LogicalPlan):
                    continue  # a sink, or rules, which know no time
                schema = target.node.plan.inputs[edge.target_port].schema
                tick = empty(schema, proctime=moment.proctime, watermark=moment.watermark)
                tick = replace(tick, since=moment.watermark, idle=moment.idle)
                work.add(target.node, edge.target_port, tick)
        self._run(work)

    def _route(self, source: RunningNode, port: int, batch: Batch, work: WaitingInput) -> None:
        """Hands a batch to the nodes and sinks behind an output port."""
        for edge in source.node.edges.get(port, ()):
            target = self._running.get(edge.target)
            if target is None:
                self._write(edge, batch, work.write)
            elif target.node.buffers_epoch:
                self._buffered.setdefault(edge.target, []).append((edge.target_port, batch))
                self._buffered_rows += _weight(batch)
            else:
                work.add(target.node, edge.target_port, batch)

    def _write(self, edge: Edge, batch: Batch, write: SinkWrite) -> None:
        """Gives rows to a sink; those that one job owns are counted, and named where it is not the
        only one that writes there."""
        if not batch.num_rows:
            return
        job = edge.job
        if job is not None:
            if edge.counted:
                self._counts.add(job, batch.num_rows)
            end = self._families.run.plan.sinks.get(edge.target)  # none for one between parts
            if end is not None and len(end.writers) > 1:
                batch = replace(batch, writers=Writers((job,), np.zeros(batch.num_rows, np.int64)))
            rows = {job: batch.num_rows}
        else:
            rows = {} if batch.writers is None else batch.writers.rows_by_job()
        began = self._guard.now()
        write(edge.target, batch)
        self._guard.wrote(rows, began)


def _weight(batch: Batch) -> int:
    """Returns the number of rows of usual length that a batch is like."""
    if not batch.num_rows:
        return 0
    # First by whole buffers, which take less time to ask; other batches may share them.
    if sum(c.get_total_buffer_size() for c in batch.columns) >> _ROW_BITS <= batch.num_rows:
        return batch.num_rows
    size: int = sum(c.nbytes for c in batch.columns) >> _ROW_BITS
    return max(batch.num_rows, size)
