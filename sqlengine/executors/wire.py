"""Encodes batches and state for transport between processes, and state files of Spark."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa

from parser.errors import ServiceError
from parser.types import Schema
from sqlengine.batch import Batch, Writers
from sqlengine.connectors.encoded import Encoded, bring_along
from sqlengine.state.columns import IntArray
from sqlengine.state.keys import BUCKET_HASH_VERSION, BUCKETS
from sqlengine.state.table import BUCKET

BATCH_FORMAT: Final = 4
STATE_FILE_FORMAT: Final = 2

_SHARED: Final = "shared"
# The fields of a state file with tables.
_KINDS: Final = ("tables", _SHARED, "removed")
_ABOUT = b"sqlengine.batch"
_BEFORE, _KIND, _OFFSET, _WRITER = "#before", "#kind", "#offset", "#writer"
_ENCODED = "#encoded"


class _BatchAbout(msgspec.Struct):
    """The fields of a batch besides its rows, in the metadata of the encoded batch."""

    format: int
    schema: Schema
    num_rows: int
    proctime: int
    watermark: int
    origin: str
    seed: int
    since: int
    idle: bool
    steps: bytes | None
    writers: tuple[str, ...] | None = None
    encoded: str | None = None


def encode_batch(batch: Batch, encoded: Encoded | None = None) -> bytes:
    """Encodes a batch as an Arrow IPC stream, without its memo, but with what was `encoded` of its
    rows."""
    about = _BatchAbout(
        BATCH_FORMAT,
        batch.schema,
        batch.num_rows,
        batch.proctime,
        batch.watermark,
        batch.origin,
        batch.seed,
        batch.since,
        batch.idle,
        None if batch.steps is None else _packed(batch.steps),
        None if batch.writers is None else batch.writers.jobs,
        None if encoded is None else encoded.of,
    )
    # Positions, not names: Spark never looks inside, and Arrow allows equal names anyway.
    names, columns = [str(i) for i in range(len(batch.columns))], list(batch.columns)
    if batch.row_watermarks is not None:
        names, columns = [*names, _BEFORE], [*columns, pa.array(batch.row_watermarks)]
    if batch.kinds is not None:
        names, columns = [*names, _KIND], [*columns, pa.array(batch.kinds)]
    if batch.offsets is not None:
        names, columns = [*names, _OFFSET], [*columns, pa.array(batch.offsets)]
    if batch.writers is not None:
        names, columns = [*names, _WRITER], [*columns, pa.array(batch.writers.of)]
    if encoded is not None:
        names += [f"{_ENCODED}{i}" for i in range(len(encoded.columns))]
        columns += encoded.columns
    rows = pa.RecordBatch.from_arrays(columns, names=names)
    rows = rows.replace_schema_metadata({_ABOUT: msgspec.json.encode(about)})
    return _ipc(rows.schema, [rows])


def decode_batch(data: bytes) -> Batch:
    """Decodes a batch. ServiceError for one of another format."""
    reader = pa.ipc.open_stream(data)
    text = reader.schema.metadata[_ABOUT]
    if (number := msgspec.json.decode(text)["format"]) != BATCH_FORMAT:
        raise ServiceError(
            f"a batch in flight has format {number}, this version reads {BATCH_FORMAT}"
        )
    about = msgspec.json.decode(text, type=_BatchAbout)
    rows = reader.read_next_batch()
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    records = tuple(columns.pop(n) for n in rows.schema.names if n.startswith(_ENCODED))
    own = (columns.pop(name, None) for name in (_BEFORE, _KIND, _OFFSET, _WRITER))
    before, kinds, offsets, writers = own
    jobs = about.writers or ()
    batch = Batch(
        about.schema,
        tuple(columns.values()),
        about.num_rows,
        about.proctime,
        about.watermark,
        None if before is None else before.to_numpy(),
        None if kinds is None else kinds.to_numpy(),
        about.origin,
        about.seed,
        None if offsets is None else offsets.to_numpy(),
        since=about.since,
        idle=about.idle,
        steps=None if about.steps is None else _unpacked(about.steps),
        writers=None if writers is None else Writers(jobs, writers.to_numpy()),
    )
    if about.encoded is not None:
        bring_along(batch, Encoded(about.encoded, records))
    return batch


def _packed(steps: IntArray) -> bytes:
    """Compresses sorted numbers that are close to each other: their differences, deflated."""
    return zlib.compress(np.diff(steps, prepend=0).tobytes(), 1)


def _unpacked(data: bytes) -> IntArray:
    return np.cumsum(np.frombuffer(zlib.decompress(data), np.int64))


@dataclass(frozen=True)
class StateFile:
    """The state of one operator for some buckets after one epoch on Spark, as dumps of its tables;
    or what has changed since another file, `previous`: rows that were put, and keys that were
    `removed` before. `shared`: tables that are equal in all partitions (watermarks of shards),
    which are whole in any case."""

    tables: Mapping[str, pa.Table]
    shared: Mapping[str, pa.Table]
    removed: Mapping[str, pa.Table] = field(default_factory=dict)
    previous: str | None = None


def encode_state(state: StateFile) -> bytes:
    """Encodes state as the length of a header (4 bytes), the header (JSON), the tables (Arrow IPC)
    and a CRC-32 of all that. Rows are sorted by bucket; the header has the first row of each."""
    blobs: list[bytes] = []
    about: list[dict[str, object]] = []
    for kind in _KINDS:
        for name, table in getattr(state, kind).items():
            ordered = table.take(np.argsort(table[BUCKET].to_numpy(), kind="stable"))
            starts = np.searchsorted(ordered[BUCKET].to_numpy(), np.arange(BUCKETS + 1)).tolist()
            blobs.append(_ipc(ordered.schema, ordered.combine_chunks().to_batches()))
            about.append({"name": name, "kind": kind, "length": len(blobs[-1]), "starts": starts})
    header = {
        "format": STATE_FILE_FORMAT,
        "bucket_hash": BUCKET_HASH_VERSION,
        "previous": state.previous,
        "tables": about,
    }
    head = json.dumps(header).encode()
    body = b"".join([len(head).to_bytes(4, "little"), head, *blobs])
    return body + zlib.crc32(body).to_bytes(4, "little")


def is_whole(data: bytes) -> bool:
    """True if a state file was written to its end."""
    return len(data) > 8 and zlib.crc32(data[:-4]).to_bytes(4, "little") == data[-4:]


def decode_state(data: bytes, buckets: Sequence[int]) -> StateFile:
    """Decodes the rows of `buckets` and the shared tables. ServiceError for other formats."""
    size = int.from_bytes(data[:4], "little")
    header = json.loads(data[4 : 4 + size])
    if (header["format"], header["bucket_hash"]) != (STATE_FILE_FORMAT, BUCKET_HASH_VERSION):
        raise ServiceError(
            f"a state file has format {header['format']} and bucket hash {header['bucket_hash']},"
            f" this version reads {STATE_FILE_FORMAT} and {BUCKET_HASH_VERSION}",
            hint="go on with the version that wrote it, or begin with an empty state folder",
        )
    found: dict[str, dict[str, pa.Table]] = {kind: {} for kind in _KINDS}
    at = 4 + size
    for about in header["tables"]:
        rows = pa.ipc.open_stream(memoryview(data)[at : at + about["length"]]).read_all()
        at += about["length"]
        if about["kind"] != _SHARED:
            rows = rows.take(_rows_of(about["starts"], buckets))
        found[about["kind"]][about["name"]] = rows
    return StateFile(**found, previous=header["previous"])


def _rows_of(starts: Sequence[int], buckets: Sequence[int]) -> IntArray:
    parts = [np.arange(starts[b], starts[b + 1]) for b in buckets]
    return np.concatenate([np.empty(0, np.int64), *parts])


def _ipc(schema: pa.Schema, rows: Sequence[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in rows:
            writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data
