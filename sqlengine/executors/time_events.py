"""Emits processing-time ticks, initial watermarks and end-of-input to the operators of a graph."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import replace

from planner.graph.merge import Graph
from planner.logical import AssignWatermark, ShuffleOut, Values
from sqlengine.batch import MAX_WATERMARK, MIN_WATERMARK, empty
from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.executors.epochs import EpochRecord
from sqlengine.executors.graph_change import GraphChange
from sqlengine.executors.inputs import Inputs
from sqlengine.executors.outputs import Outputs


class TimeEvents:
    """The time events of one graph, in its thread: empty batches that carry a time. What operators
    produce for them goes to the graph's sinks."""

    def __init__(self, executor: EmbeddedExecutor, inputs: Inputs, outputs: Outputs) -> None:
        self._executor = executor
        self._inputs = inputs
        self._write = outputs.write

    def tick(self, record: EpochRecord, names: AbstractSet[str]) -> None:
        """Emits the epoch's processing time behind these sources.

        The tick of a source comes from one of its shards and leaves watermarks as they are. A
        source that has ended stays at MAX_WATERMARK; one without shards emits nothing."""
        for name, source in self._inputs.running.items():
            if name not in names:
                continue
            shard = "" if source.ended else next(iter(source.positions), "")
            if source.ended or shard:
                watermark = MAX_WATERMARK if source.ended else MIN_WATERMARK
                tick = source.tick(shard, record.proctime, watermark)
                self._executor.push(name, tick, self._write)

    def tick_values(self, record: EpochRecord) -> None:
        """Emits the epoch's processing time behind VALUES whose rows are out."""
        for name, node in self._executor.running.items():
            plan = node.node.plan
            if isinstance(plan, Values) and name not in self._inputs.unstarted:
                tick = empty(plan.schema, proctime=record.proctime, watermark=MAX_WATERMARK)
                self._executor.push_output(name, tick, self._write)

    def emit_initial_watermarks(self, name: str) -> None:
        """Tells new watermark operators behind a source of its shards, or of its end."""
        source = self._inputs.running[name]
        if source.ended:
            self._executor.push(name, source.tick("", 0, MAX_WATERMARK), self._write)
            return
        for shard in source.positions:
            self.emit_initial_watermark_of(name, shard)

    def emit_initial_watermark_of(self, name: str, shard: str) -> None:
        """Emits MIN_WATERMARK for a shard: it holds back the watermark of its table until it has
        one of its own."""
        tick = self._inputs.running[name].tick(shard, 0, MIN_WATERMARK)
        self._executor.push(name, tick, self._write)

    def end(self, name: str, record: EpochRecord) -> None:
        """Emits the end of a source, or the rows of VALUES with theirs."""
        if name in self._inputs.unstarted:
            self._inputs.unstarted.discard(name)
            plan = self._executor.running[name].node.plan
            assert isinstance(plan, Values)
            tick = replace(empty(plan.schema, proctime=record.proctime), seed=record.seed)
            self._executor.push(name, tick, self._write)
            return
        source = self._inputs.running[name]
        source.ended = True
        self._executor.push(name, source.tick("", record.proctime, MAX_WATERMARK), self._write)


def sources_needing_initial_watermark(
    graph: Graph, change: GraphChange, running: Iterable[str]
) -> Iterable[str]:
    """The sources that are new with a change to `graph`, or that have a new watermark operator,
    which must know of silent shards. All `running` ones where a new shuffle is to pass their
    watermarks on to other subtasks."""
    plan = change.prepared.plan
    if any(isinstance(plan.nodes[n].plan, ShuffleOut) for n in change.prepared.new_nodes):
        return running
    sources = dict.fromkeys(change.sources)
    for name in change.prepared.new_nodes:
        node = graph.nodes.get(name)
        if node is not None and isinstance(node.plan, AssignWatermark):
            while node.inputs:
                node = graph.nodes[node.inputs[0]]
            sources[node.id] = None
    return sources
