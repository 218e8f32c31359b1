"""What operators are told of time besides rows: ticks of processing time, shards that come, inputs
that end."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import replace

from planner.graph.merge import Graph
from planner.logical import AssignWatermark, ShuffleOut, Values
from sqlengine.batch import MAX_WATERMARK, MIN_WATERMARK, empty
from sqlengine.executors.embedded import EmbeddedExecutor, SinkWrite
from sqlengine.executors.epochs import EpochRecord
from sqlengine.executors.graph_change import GraphChange
from sqlengine.executors.inputs import Inputs


class TimeEvents:
    """Of one graph, in its thread; what comes of it goes to `write`."""

    def __init__(self, executor: EmbeddedExecutor, inputs: Inputs, write: SinkWrite) -> None:
        self._executor = executor
        self._inputs = inputs
        self._write = write

    def tick(self, record: EpochRecord, names: AbstractSet[str]) -> None:
        """Tells all operators behind these sources of the processing time. A source's tick comes
        from a shard that it has; what has ended stays at the end of time."""
        for name, source in self._inputs.running.items():
            if name not in names:
                continue
            shard = "" if source.ended else next(iter(source.positions), "")
            if source.ended or shard:
                watermark = MAX_WATERMARK if source.ended else MIN_WATERMARK
                self._executor.push(
                    name, source.tick(shard, record.proctime, watermark), self._write
                )

    def tick_values(self, record: EpochRecord) -> None:
        """The same for what stands behind VALUES."""
        for name, node in self._executor.running.items():
            if isinstance(node.node.plan, Values) and name not in self._inputs.unstarted:
                tick = empty(
                    node.node.plan.schema, proctime=record.proctime, watermark=MAX_WATERMARK
                )
                self._executor.push_output(name, tick, self._write)

    def emit_initial_watermarks(self, name: str) -> None:
        """Tells those who do not know a source yet of its shards, or of its end."""
        source = self._inputs.running[name]
        if source.ended:
            self._executor.push(name, source.tick("", 0, MAX_WATERMARK), self._write)
            return
        for shard in source.positions:
            self.emit_initial_watermark_of(name, shard)

    def emit_initial_watermark_of(self, name: str, shard: str) -> None:
        """A shard holds the watermark of its table back until it has one of its own."""
        self._executor.push(
            name, self._inputs.running[name].tick(shard, 0, MIN_WATERMARK), self._write
        )

    def end(self, name: str, record: EpochRecord) -> None:
        """A source has given all, or VALUES are to be given."""
        if name in self._inputs.unstarted:
            self._inputs.unstarted.discard(name)
            schema = self._executor.running[name].node.plan.schema  # type: ignore[union-attr]
            tick = replace(empty(schema, proctime=record.proctime), seed=record.seed)
            self._executor.push(name, tick, self._write)
            return
        source = self._inputs.running[name]
        source.ended = True
        self._executor.push(name, source.tick("", record.proctime, MAX_WATERMARK), self._write)


def sources_needing_initial_watermark(
    graph: Graph, change: GraphChange, running: Iterable[str]
) -> Iterable[str]:
    """Sources that are new with a change to `graph`, or over which there is a new watermark: it
    must know of the shards that are silent. All that are `running` where others wait to hear how
    far the time is."""
    plan = change.prepared.plan
    if any(isinstance(plan.nodes[n].plan, ShuffleOut) for n in change.prepared.operators):
        return running
    found = dict.fromkeys(change.sources)
    for name in change.prepared.operators:
        node = graph.nodes.get(name)
        if node is not None and isinstance(node.plan, AssignWatermark):
            while node.inputs:
                node = graph.nodes[node.inputs[0]]
            found[node.id] = None
    return found
