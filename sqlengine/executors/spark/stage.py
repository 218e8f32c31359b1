"""The stateless stage of a graph, in Spark's Python workers. Does not import Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

import msgspec
import pyarrow as pa

from parser.errors import ExecutionError
from planner.graph.physical import PhysicalNode
from planner.logical import Scan, Values
from planner.scalar import Scalar
from sqlengine.batch import Batch, empty
from sqlengine.connectors.registry import connect_formats, open_scan
from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.embedded import PRUNED
from sqlengine.executors.failures import SourceChanged
from sqlengine.executors.sources import RunningSource
from sqlengine.executors.spark.fragment import Fragment, FragmentOperator
from sqlengine.executors.spark.handed_over import fetched
from sqlengine.executors.spark.reading.digests import is_as_before
from sqlengine.executors.spark.reading.linked import LinkedRows
from sqlengine.executors.spark.splits import TURN, InputSplit, failing
from sqlengine.executors.spark.tasks.answers import of_split
from sqlengine.executors.spark.tasks.rules import TaskRules
from sqlengine.executors.spark.worker import (
    ChunkOutput,
    ChunkPosition,
    Counts,
    Step,
    TaskContext,
    merged,
)
from sqlengine.executors.wire import decode_batch


class SourceStage:
    """Runs the stateless fragments of a graph over input splits, each from an empty state. The
    keyed stage knows the watermarks before a split. `filters`: the rows that are wanted of a
    source, where it can leave out others, by scan. `answers_in`: the folder (a URI) for what
    functions answer that are not deterministic; None where there are none. `digests_in`: that of
    what is read of tables that keep no history; None where no epoch is repeated. SourceFailed where
    a table cannot be read."""

    def __init__(
        self,
        fragments: Mapping[str, Fragment],
        factory: OperatorFactory,
        rows_per_turn: int,
        rules: TaskRules,
        filters: Mapping[str, Scalar],
        answers_in: str | None = None,
        digests_in: str | None = None,
    ) -> None:
        self._nodes = {name: _source_of(name, f) for name, f in fragments.items()}
        self._connect_formats(rules)
        self._operators = {name: FragmentOperator(f, factory) for name, f in fragments.items()}
        self._rows_per_turn = rows_per_turn
        self._rules = rules
        self._filters = filters
        self._answers_in = answers_in
        self._digests_in = digests_in
        self._rows_read = self._answers = 0
        self._pruned = Counter[str]()
        self._running: dict[str, RunningSource] = {}
        self._links: dict[str, LinkedRows] = {}
        for operator in self._operators.values():
            operator.open(TaskContext())

    def _connect_formats(self, rules: TaskRules) -> None:
        """Lets formats see secrets and files: rows that the driver has read are decoded here."""
        environment = rules.environment(lambda: 0)
        for node in self._nodes.values():
            if isinstance(node.plan, Scan):
                connect_formats(node.plan.table, environment)

    def run(self, step: Step, records: pa.RecordBatch) -> Iterator[ChunkOutput]:
        for row in records.to_pylist():
            split = InputSplit(**row)
            if split.batch is not None:
                split = replace(split, batch=fetched(split.batch))
            if self._answers_in is None:
                yield from self._outputs(split, step)
            else:
                answers = of_split(self._answers_in, step, split)
                yield from answers.behind(self._outputs(split, step))
                self._answers += answers.count

    def _outputs(self, split: InputSplit, step: Step) -> Iterator[ChunkOutput]:
        operator = self._operators[split.source]
        operator.reset(TaskContext())
        first = split.row // self._rows_per_turn
        for n, batch in enumerate(self._batches(split, step), first):
            if split.end > split.start:  # read here, and not in the driver
                self._rows_read += batch.num_rows
            position = ChunkPosition(split.log, split.start, n, split.turn + n * TURN)
            yield ChunkOutput(position, operator.process(0, batch))

    def take_counts(self) -> Counts:
        pruned, self._pruned = self._pruned, Counter()
        parts = {name: {PRUNED: number} for name, number in pruned.items() if number}
        operators = (operator.take_counts() for operator in self._operators.values())
        counts = merged((*operators, Counts(nodes=parts)))
        read, answers = self._rows_read, self._answers
        self._rows_read = self._answers = 0
        # No timer: each split begins anew.
        return msgspec.structs.replace(counts, read=read, timer=None, answers=answers)

    def _batches(self, split: InputSplit, step: Step) -> Iterator[Batch]:
        plan = self._nodes[split.source].plan
        if isinstance(plan, Values):
            yield replace(empty(plan.schema, proctime=step.proctime), seed=step.seed)
            return
        if split.place is not None:
            batch, missing = self._linked_rows(split.source).read(split, step.proctime, step.seed)
            self._rows_read -= missing  # the driver has counted them
        else:
            batch = self._read(split, step) if split.batch is None else decode_batch(split.batch)
        if not batch.num_rows:
            yield batch
        for start in range(0, batch.num_rows, self._rows_per_turn):
            part = batch.slice(start, min(self._rows_per_turn, batch.num_rows - start))
            yield replace(part, seed=part.seed ^ (split.row + start))

    def _read(self, split: InputSplit, step: Step) -> Batch:
        rows = split.end - split.start
        with failing(self._nodes[split.source]):
            running = self._source(split.source, step)
            chunk = running.source.read(split.shard, split.start, max_rows=rows, until=split.end)
            if chunk is None:
                raise ExecutionError(
                    f"table '{running.scan.table.display}' has lost rows while it is read",
                    detail=f"nothing is at {split.start} of '{split.shard}' any more",
                    hint="read files that nobody changes meanwhile",
                )
            self._require_as_before(split, step, running, chunk.digest)
        self._pruned[split.source] += chunk.pruned
        return running.batch(chunk, step.proctime, step.seed)

    def _require_as_before(
        self, split: InputSplit, step: Step, running: RunningSource, digest: str
    ) -> None:
        """Raises SourceChanged where an attempt before has read other rows."""
        folder = self._digests_in
        if folder is not None and digest and not is_as_before(folder, step, split, digest):
            cause = ExecutionError(
                f"table '{running.scan.table.display}' has changed while it was read",
                detail=f"epoch {step.epoch} is repeated, and the rows are not those of before",
                hint="remove the job and submit it again: it reads the table as it is now",
            )
            raise SourceChanged(self._nodes[split.source].jobs, cause)

    def _linked_rows(self, name: str) -> LinkedRows:
        if name not in self._links:
            plan = self._nodes[name].plan
            assert isinstance(plan, Scan)
            self._links[name] = LinkedRows(plan)
        return self._links[name]

    def _source(self, name: str, step: Step) -> RunningSource:
        if name not in self._running:
            plan = self._nodes[name].plan
            assert isinstance(plan, Scan)
            environment = self._rules.environment(lambda: step.proctime)
            source = open_scan(plan, environment, patient=True)
            source.apply_filter(self._filters.get(name))
            self._running[name] = RunningSource(plan, source)
        return self._running[name]


def _source_of(name: str, fragment: Fragment) -> PhysicalNode:
    return next(n for n in fragment.nodes if n.id == name)
