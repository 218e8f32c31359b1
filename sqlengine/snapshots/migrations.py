"""Where the belongings of jobs are kept that go from one graph to another: written before the job
leaves the one, and kept until the other needs them no more. In a topic of the broker, so that they
are as durable as what tells of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec
import pyarrow as pa

from sqlengine.broker.base import Broker
from sqlengine.executors.pending_commits import PendingCommit
from sqlengine.snapshots.job_snapshot import JobSnapshot, SourceAt
from sqlengine.state.table import BUCKET, SEQUENCE, TableDelta
from sqlengine.state.topic_store import TopicStores
from sqlengine.system.format_numbers import check_number

HANDOVERS: Final = "_handovers"
FORMAT: Final = 1
_ROWS = 1 << 16  # of a piece of a table


class _Header(msgspec.Struct):
    """What is known of belongings besides their tables, which are in pieces by number and number of
    the piece. `tables`: digest and name of each; `versions`: the digests of the tables behind
    those; `job`, `version`: of the only job, where an older version wrote it."""

    graph: str
    epoch: int
    sources: dict[str, SourceAt]
    given: list[str]
    tables: list[tuple[str, str]]
    unsent: list[PendingCommit] = []
    versions: list[str] = []
    jobs: dict[str, int] = {}
    job: str = ""
    version: int = 0
    format: int = FORMAT


class MigrationStore:
    """Those of one engine, by name; `names` are those that there are. With `sync` they are on disk
    when `put` returns, and all that was appended before them."""

    def __init__(self, broker: Broker, clock: Callable[[], int], *, sync: bool = False) -> None:
        self._broker = broker
        self._stores = TopicStores(broker, clock, HANDOVERS)
        self._sync = sync
        self.names = set(self._stores.names())

    def put(self, name: str, belongings: JobSnapshot) -> None:
        """Writes them down: they are there, whole, when this returns. ServiceError when they cannot
        be written."""
        self.names.add(name)
        header = msgspec.to_builtins(_header(belongings))
        store = self._stores.open(name)
        for number, rows in enumerate([*belongings.tables.values(), *belongings.versions.values()]):
            for piece, part in _pieces(number, rows):
                store.put({}, {piece: part})
        store.put(header, {})
        if self._sync:
            self._broker.sync()

    def get(self, name: str) -> JobSnapshot | None:
        """None where there are none, or their writer died over them. ServiceError for those of
        another format."""
        loaded = self._stores.open(name).load()
        if loaded is None or not loaded.position:
            return None
        check_number(loaded.position.get("format"), FORMAT, "a handover")
        header = msgspec.convert(loaded.position, _Header)
        tables = {key: _whole(n, loaded.tables) for n, key in enumerate(header.tables)}
        versions = {
            digest: _whole(n, loaded.tables)
            for n, digest in enumerate(header.versions, len(tables))
        }
        jobs = header.jobs or {header.job: header.version}
        about = (jobs, header.graph, header.epoch, header.sources, header.given)
        return JobSnapshot(*about, tables, tuple(header.unsent), versions)

    def remove(self, name: str) -> None:
        self._stores.remove(name)
        self.names.discard(name)


def _header(b: JobSnapshot) -> _Header:
    return _Header(
        b.graph,
        b.epoch,
        b.sources,
        b.given,
        list(b.tables),
        list(b.unsent),
        list(b.versions),
        b.jobs,
    )


def _pieces(number: int, rows: pa.Table) -> Iterator[tuple[str, TableDelta]]:
    """A table in pieces that are written one by one."""
    whole = rows.combine_chunks()
    for start in range(0, max(whole.num_rows, 1), _ROWS):
        batch = (whole.slice(start, _ROWS).to_batches() or [_empty(whole.schema)])[0]
        yield (
            f"{number}/{start}",
            TableDelta(batch, batch.slice(0, 0).select([SEQUENCE, BUCKET]), 0),
        )


def _whole(number: int, tables: Mapping[str, pa.Table]) -> pa.Table:
    starts = sorted(int(name.split("/")[1]) for name in tables if name.startswith(f"{number}/"))
    return pa.concat_tables([tables[f"{number}/{start}"] for start in starts])


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)
