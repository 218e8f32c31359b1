"""The store of snapshots of jobs that migrate from one graph to another.

A snapshot is written before the job leaves the one graph, and kept until the other one's
checkpoints have it. It is in a topic of the broker, so that it is as durable as the logs that refer
to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec
import pyarrow as pa
from msgspec import field

from sqlengine.broker.base import Broker
from sqlengine.executors.sinks.pending_commits import PendingCommit
from sqlengine.snapshots.job_snapshot import JobSnapshot, SourcePosition
from sqlengine.state.table import BUCKET, SEQUENCE, TableDelta
from sqlengine.state.topic_store import TopicStores
from sqlengine.system.format_numbers import check_number

MIGRATIONS: Final = "_handovers"  # the topic's name on disk
FORMAT: Final = 1
_ROWS_PER_CHUNK = 1 << 16


class _Header(msgspec.Struct):
    """A snapshot without the rows of its tables, which are in chunks by number of the table.

    `tables`: digest and name of each; `file_versions`: the digests of the tables that follow them.
    `job` and `version` are set in place of `jobs` by older versions. Names on disk are older than
    those in code."""

    graph: str
    epoch: int
    sources: dict[str, SourcePosition]
    emitted_values: list[str] = field(name="given")
    tables: list[tuple[str, str]]
    pending_commits: list[PendingCommit] = field(default_factory=list, name="unsent")
    file_versions: list[str] = field(default_factory=list, name="versions")
    jobs: dict[str, int] = {}
    job: str = ""
    version: int = 0
    format: int = FORMAT


class MigrationStore:
    """The stored snapshots of one engine, by name; `names` are those that exist.

    With `sync` a snapshot, and all that was appended before it, is on disk when `put` returns."""

    def __init__(self, broker: Broker, clock: Callable[[], int], *, sync: bool = False) -> None:
        self._broker = broker
        self._stores = TopicStores(broker, clock, MIGRATIONS)
        self._sync = sync
        self.names = set(self._stores.names())

    def put(self, name: str, snapshot: JobSnapshot) -> None:
        """Stores a snapshot, which is complete when this returns. ServiceError if it cannot be
        written."""
        self.names.add(name)
        header = msgspec.to_builtins(_header(snapshot))
        store = self._stores.open(name)
        tables = [*snapshot.tables.values(), *snapshot.file_versions.values()]
        for number, rows in enumerate(tables):
            for chunk_name, chunk in _chunks(number, rows):
                store.put({}, {chunk_name: chunk})
        store.put(header, {})  # the commit point: without a header there is no snapshot
        if self._sync:
            self._broker.sync()

    def replace(self, name: str, snapshot: JobSnapshot) -> None:
        """Stores a snapshot as `put` does, in the place of one that may be there."""
        self._stores.remove(name)
        self.put(name, snapshot)

    def get(self, name: str) -> JobSnapshot | None:
        """Returns a snapshot; None if there is none, or its writer died before the end.
        ServiceError for one of another format."""
        loaded = self._stores.open(name).load()
        if loaded is None or not loaded.position:
            return None
        check_number(loaded.position.get("format"), FORMAT, "a handover")
        header = msgspec.convert(loaded.position, _Header)
        count = len(header.tables)
        return JobSnapshot(
            jobs=header.jobs or {header.job: header.version},
            graph=header.graph,
            epoch=header.epoch,
            sources=header.sources,
            emitted_values=header.emitted_values,
            tables={key: _join_chunks(n, loaded.tables) for n, key in enumerate(header.tables)},
            pending_commits=tuple(header.pending_commits),
            file_versions={
                digest: _join_chunks(n, loaded.tables)
                for n, digest in enumerate(header.file_versions, count)
            },
        )

    def remove(self, name: str) -> None:
        """Deletes a snapshot; an unknown one is no error."""
        self._stores.remove(name)
        self.names.discard(name)


def _header(snapshot: JobSnapshot) -> _Header:
    return _Header(
        graph=snapshot.graph,
        epoch=snapshot.epoch,
        sources=snapshot.sources,
        emitted_values=snapshot.emitted_values,
        tables=list(snapshot.tables),
        pending_commits=list(snapshot.pending_commits),
        file_versions=list(snapshot.file_versions),
        jobs=snapshot.jobs,
    )


def _chunks(number: int, rows: pa.Table) -> Iterator[tuple[str, TableDelta]]:
    """Yields the rows of a table in chunks, which are written one by one; at least one."""
    whole = rows.combine_chunks()
    for start in range(0, max(whole.num_rows, 1), _ROWS_PER_CHUNK):
        batches = whole.slice(start, _ROWS_PER_CHUNK).to_batches()
        batch = batches[0] if batches else _empty(whole.schema)
        # A delta that removes nothing: the store holds snapshots in the form of checkpoints.
        removed = batch.slice(0, 0).select([SEQUENCE, BUCKET])
        yield f"{number}/{start}", TableDelta(batch, removed, 0)


def _join_chunks(number: int, tables: Mapping[str, pa.Table]) -> pa.Table:
    starts = sorted(int(name.split("/")[1]) for name in tables if name.startswith(f"{number}/"))
    return pa.concat_tables([tables[f"{number}/{start}"] for start in starts])


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)
