"""The one form of an operator, for every way of running it.

An operator does no I/O, starts no thread, reads no clock, no random source and no `hash`: all that
it depends on is in its arguments and in the tables that its context gave it. So the embedded loop
calls it in process, a Spark task calls it on its buckets, an instance on its shards, a simulation
on a clock of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

from parser.types import BIGINT, STRING, Column, Schema
from sqlengine.batch import Batch
from sqlengine.state.table import KeyedTable

# Rows that could not be processed leave by this port, as `DEAD_LETTER` rows; all other ports count
# from 0.
ERROR_PORT = -1
# By this one leave rows of the same form for which a job cannot go on; they are among the dead
# letters, too.
GIVE_UP_PORT = -2

# owner: the job, or '' for a table's records that all its jobs read; place: line:column in the
# job's text, or shard@offset; subject: the expression or the table; reason: in words; payload: the
# row's values as JSON, or the record. shard, offset: the record that the row came from, NULL where
# nobody knows. The executor adds what it knows besides: the table in full, its topic or path, and
# the scan's id in the graph.
_SAID = ("owner", "place", "subject", "reason", "payload")
_FROM = (Column("shard", STRING), Column("offset", BIGINT))
_ADDRESS = ("table", "stored", "source")
DEAD_LETTER = Schema(
    (*(Column(n, STRING) for n in _SAID), *_FROM, *(Column(n, STRING) for n in _ADDRESS))
)

Output = list[tuple[int, Batch]]
# The same, made as it is asked for: who asks takes all of it before it gives the operator the next
# batch.
Stream = Iterable[tuple[int, Batch]]


class Context(Protocol):
    """What an operator may use besides its arguments."""

    counters: Counter[str]

    def table(
        self, name: str, keys: Schema, values: Schema, exchange: tuple[str, ...] | None
    ) -> KeyedTable:
        """The operator's state under `name`, filled from a checkpoint when there is one. `exchange`
        are the key columns whose hash is the row's bucket; none means bucket 0. None itself: the
        rows belong to no bucket, and every instance of the operator has them all (how far the time
        is)."""


@runtime_checkable
class Timed(Protocol):
    """An operator that waits for processing time."""

    def timer(self) -> int | None:
        """The processing time (ms) at which it wants a tick; None where it waits for nothing."""


@runtime_checkable
class StateSuccessor(Protocol):
    """An operator that must know which nodes take up the state of others."""

    def on_state_takeover(self, nodes: Mapping[str, str], version: int) -> None:
        """With `version` of the graph those nodes take up the state of these (by id)."""


@runtime_checkable
class BatchedInput(Protocol):
    """An operator for which it matters that batches of its inputs came together."""

    def process_many(self, parts: Sequence[tuple[int, Batch]]) -> Output:
        """What `process` gives for all of these batches, by input port."""


class Operator(Protocol):
    """`open` comes once, before anything else; `process` any number of times from one thread;
    `close` once.

    `process` takes a batch of input `port` and gives batches by output port, in order. It never
    raises for data: such rows leave by `ERROR_PORT`. A batch without rows that carries time is a
    tick: there is no other entry point."""

    def open(self, context: Context) -> None: ...

    def process(self, port: int, batch: Batch) -> Stream: ...

    def close(self) -> None: ...


def outputs(operator: Operator, parts: Sequence[tuple[int, Batch]]) -> Iterator[Stream]:
    """What comes of the batches that wait for an operator, by input port: one after the other or,
    for what can, together."""
    if len(parts) > 1 and isinstance(operator, BatchedInput):  # which is slow to ask
        yield operator.process_many(parts)
        return
    for port, part in parts:
        yield operator.process(port, part)
