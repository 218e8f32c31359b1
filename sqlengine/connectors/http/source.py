"""Reading what a host has when a job begins.

A host keeps no history, so what was read cannot be read again once it has changed. The shard's name
tells which records they were: a job that was killed while it still read goes on where it was if the
host gives the same ones, and fails loudly if not."""

from __future__ import annotations

import pyarrow as pa
from xxhash import xxh3_64_hexdigest

from parser.errors import ExecutionError
from planner.catalog import Table
from sqlengine.connectors.base import Source
from sqlengine.connectors.chunks import Chunk
from sqlengine.connectors.http.reading import Reader


class HttpSource(Source):
    """A source with one shard, named after a hash of its records; an offset counts them."""

    bounded = True

    def __init__(self, table: Table, reader: Reader) -> None:
        self._table = table.display
        records = [record for _, page in reader.pages({}, {}) for record in page]
        self._records = pa.array(records, pa.binary())
        self._shard = xxh3_64_hexdigest(b"\n".join(records))

    def shards(self) -> list[str]:
        return [self._shard]

    def start(self, shard: str) -> int:
        return 0

    def end(self, shard: str) -> int | None:
        return len(self._records)

    def read(
        self, shard: str, offset: int, *, max_rows: int, until: int | None = None
    ) -> Chunk | None:
        """See `Source`. ExecutionError where the records of `shard` are no longer there."""
        if shard != self._shard:
            raise ExecutionError(
                f"table '{self._table}' has other rows than before",
                detail="it was read in part, and its host keeps no history",
                hint="begin anew: remove the job, and submit it again",
            )
        end = min(offset + max_rows, len(self._records)) if until is None else until
        if end <= offset:
            return None
        return Chunk(
            shard,
            offset,
            end,
            end - offset,
            self._records.slice(offset, end - offset),
            offsets=pa.array(range(offset, end), pa.int64()).to_numpy(),
        )

    def close(self) -> None: ...
