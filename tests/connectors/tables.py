"""Tables for the tests of connectors."""

from __future__ import annotations

from collections.abc import Iterable

from parser.types import BIGINT, STRING, Column, DataType, Schema
from planner.catalog import MetadataColumn, Table
from sqlengine.connectors.base import Source
from sqlengine.connectors.environment import Environment

SCHEMA = Schema.of(id=BIGINT, name=STRING)


def table(
    options: dict[str, str],
    schema: Schema = SCHEMA,
    *,
    name: str = "t",
    metadata: dict[str, DataType] | None = None,
    virtual: bool = True,
) -> Table:
    """A table of `schema` and a metadata column per key in `metadata`."""
    columns = tuple(
        MetadataColumn(Column(f"m_{k}", t), k, virtual) for k, t in (metadata or {}).items()
    )
    whole = Schema(schema.columns + tuple(m.column for m in columns))
    return Table(("default_catalog", "default_database", name), whole, schema, options, columns)


class Clock:
    """Time in ms that a test moves."""

    def __init__(self, now: int = 0) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


def environment(
    broker: object = None,
    writer: str = "g",
    clock: Clock | None = None,
    lines: list[str] | None = None,
) -> Environment:
    out = lines if lines is not None else []
    return Environment(broker, clock or Clock(1000), writer, out.append)  # type: ignore[arg-type]


def read_all(source: Source, max_rows: int = 1000) -> list[bytes]:
    """All records that are there now, and that a replay of each range gives the same."""
    found: list[bytes] = []
    for shard in source.shards():
        offset = source.start(shard)
        while (chunk := source.read(shard, offset, max_rows=max_rows)) is not None:
            assert chunk.start == offset
            assert chunk.num_rows <= max_rows
            again = source.read(shard, chunk.start, max_rows=1, until=chunk.end)
            assert again is not None
            assert again.records is not None
            assert again.offsets is not None
            assert chunk.records is not None
            assert chunk.offsets is not None
            assert again.records.to_pylist() == chunk.records.to_pylist()
            assert again.offsets.tolist() == chunk.offsets.tolist()
            found += chunk.records.to_pylist()
            offset = chunk.end
    return found


def json_rows(ids: Iterable[int]) -> list[bytes]:
    return [b'{"id":%d,"name":"n%d"}' % (i, i) for i in ids]
