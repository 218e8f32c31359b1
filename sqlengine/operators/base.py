"""The interface of operators, the same for every way of running them.

An operator does no I/O, starts no thread, reads no clock, no random source and no `hash`:
everything it depends on is in its arguments and in its state tables. So the embedded loop calls it
in process, a Spark task on its buckets, an instance on its shards, a simulation on a clock of its
own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, runtime_checkable

from parser.types import BIGINT, STRING, Column, Schema
from sqlengine.batch import MAX_WATERMARK, MIN_WATERMARK, Batch
from sqlengine.state.table import KeyedTable

# The port of rows that could not be processed, as `DEAD_LETTER` rows; all other ports count from 0.
ERROR_PORT = -1
# The port of rows for which a job must stop, in the same schema; they are dead letters, too.
FATAL_ERROR_PORT = -2

# owner: the job; '' for all that have the operator, which the executor fills in, and for a table's
# record that cannot be read; place: line:column in the
# job's text, or shard@offset; subject: the expression or the table; reason: a text; payload: the
# row's values as JSON, or the record. shard, offset: the record that the row came from, NULL where
# unknown. The executor fills in the rest: the qualified table, its topic or path, and the id of the
# scan in the graph.
_DESCRIPTION = ("owner", "place", "subject", "reason", "payload")
_RECORD = (Column("shard", STRING), Column("offset", BIGINT))
_SOURCE = ("table", "stored", "source")
DEAD_LETTER = Schema(
    (*(Column(n, STRING) for n in _DESCRIPTION), *_RECORD, *(Column(n, STRING) for n in _SOURCE))
)

Output = list[tuple[int, Batch]]
# Lazy output: the caller consumes all of it before it passes the next batch to the operator.
Stream = Iterable[tuple[int, Batch]]


class Context(Protocol):
    """The counters and state tables of one operator."""

    counters: Counter[str]

    def table(
        self, name: str, keys: Schema, values: Schema, exchange: tuple[str, ...] | None
    ) -> KeyedTable:
        """Returns the operator's state table `name`, restored from the checkpoint if there is one.

        `exchange` are the key columns whose hash is the row's bucket; without any, all rows are in
        bucket 0. None: the rows belong to no bucket, and every instance of the operator has all of
        them (watermarks, for example).
        """

    def check_step(self) -> None:
        """Raises where the step must end: it took too long or too much memory, or somebody wants
        it to. Operators call it in loops that may run long without output, every few ms."""

    def charge(self, rows: Mapping[str, int]) -> None:
        """Says for which of the jobs that share the operator it computes from now on, with the rows
        of each; none: for all of them."""


@runtime_checkable
class Timed(Protocol):
    """An operator with processing-time timers."""

    def timer(self) -> int | None:
        """Returns the processing time (ms) of the next timer; None where there is none."""


class Rest(NamedTuple):
    """The first tick that an operator needs: one with at least this `watermark` or this `proctime`
    (ms)."""

    watermark: int = MAX_WATERMARK
    proctime: int = MAX_WATERMARK


# No tick matters but the last one, which every operator gets; and each matters.
NO_TICK: Final = Rest()
EVERY_TICK: Final = Rest(MIN_WATERMARK, MIN_WATERMARK)


@runtime_checkable
class Rests(Protocol):
    """An operator that may be left without ticks which change neither its state nor its output.

    Its watermark is not told from ticks: that before the next batch is in the batch (`since`)."""

    def rest(self) -> Rest:
        """Returns which tick is the first that it needs, unless rows come before. Called between
        two batches."""


@runtime_checkable
class StateSuccessor(Protocol):
    """An operator that is notified when nodes of a new graph take over the state of others."""

    def on_state_takeover(self, nodes: Mapping[str, str], version: int) -> None:
        """Notifies that the nodes `nodes` (new id -> old id) take over state at `version` of the
        graph."""


@runtime_checkable
class BatchedInput(Protocol):
    """An operator that treats batches of several inputs together."""

    def process_many(self, parts: Sequence[tuple[int, Batch]]) -> Stream:
        """Processes all of these batches, given by input port, as one call of `process` would one
        of them."""


class Operator(Protocol):
    """A streaming operator. One thread calls `open` once, then `process` any number of times, then
    `close` once.

    `process` takes a batch of input `port`, and returns batches by output port, in order. It never
    raises for data: failing rows leave by `ERROR_PORT`. A batch without rows that carries time is a
    tick: there is no other entry point for watermarks and timers.
    """

    def open(self, context: Context) -> None: ...

    def process(self, port: int, batch: Batch) -> Stream: ...

    def close(self) -> None: ...


def expiry(table: KeyedTable, column: str, ttl_ms: int) -> Rest:
    """Returns which tick is the first that removes a row, `ttl_ms` after the time in `column`; none
    where that is 0."""
    first = table.earliest(column) if ttl_ms else None
    return NO_TICK if first is None else Rest(proctime=first + ttl_ms)


def min_rest(rests: Collection[Rest]) -> Rest:
    """Returns until when none of these needs a tick."""
    return Rest(
        min((r.watermark for r in rests), default=NO_TICK.watermark),
        min((r.proctime for r in rests), default=NO_TICK.proctime),
    )


def outputs(operator: Operator, parts: Sequence[tuple[int, Batch]]) -> Iterator[Stream]:
    """Yields the output for the batches that wait for an operator: one by one, or together for a
    `BatchedInput`."""
    if len(parts) > 1 and isinstance(operator, BatchedInput):  # the slow check comes last
        yield operator.process_many(parts)
        return
    for port, part in parts:
        yield operator.process(port, part)
