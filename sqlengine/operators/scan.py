"""Decodes the records of a shard to rows of a table, once for all jobs that read it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parser.limits import bytes_text, present
from parser.types import BIGINT, BYTES, Column, Schema
from planner.catalog import Table
from sqlengine.batch import NO_OFFSET, Batch, IntArray, RowKind, replaced
from sqlengine.formats.base import BadRecord, Decoded, Decoder
from sqlengine.formats.keyed.decoder import KeyedDecoder
from sqlengine.formats.registry import value_metadata
from sqlengine.operators.base import ERROR_PORT, Context, Output
from sqlengine.operators.dead_letters import MAX_PAYLOAD, letters
from sqlengine.state.columns import BoolArray, validity

RECORD = "record"
KEY = "key"
OFFSET = "offset"
METADATA_PREFIX = "@"
_LENGTH = "length"


def raw_schema(metadata: Schema, *, keyed: bool = False) -> Schema:
    """Returns the schema of a scan's input: record, offset in the shard, metadata columns as '@'
    and the key, and the keys of the records where they are decoded, too."""
    columns = tuple(Column(METADATA_PREFIX + c.name, c.type) for c in metadata)
    key = (Column(KEY, BYTES),) if keyed else ()
    return Schema((Column(RECORD, BYTES), Column(OFFSET, BIGINT), *columns, *key))


def with_lengths(schema: Schema) -> Schema:
    """Returns the schema of a scan's input of which some records have their first bytes alone: with
    a column of the bytes that each takes in its source."""
    return Schema((*schema.columns, Column(_LENGTH, BIGINT)))


class ScanOperator:
    """Decodes the columns that are read downstream; stateless.

    Malformed records, and those longer than 'record-size', leave by the error port, owned by the
    table and not by its jobs; the rows beside them pass. Batches that a connector decoded itself
    (no `record` column) pass as they are.
    """

    def __init__(self, table: Table, columns: Sequence[str], decoder: Decoder) -> None:
        wanted = set(columns)
        metadata = [m for m in table.metadata if m.column.name in wanted]
        self.decoded = tuple(c for c in table.physical if c.name in wanted)
        self.schema = Schema(self.decoded + tuple(m.column for m in metadata))
        self._required = [c.name for c in self.decoded if not c.type.nullable]
        from_format = value_metadata(table)
        self._keys = [None if m in from_format else METADATA_PREFIX + m.key for m in metadata]
        self._decoder = decoder
        self._table = table.display

    def open(self, context: Context) -> None:
        self._counters = context.counters

    def process(self, port: int, batch: Batch) -> Output:
        if RECORD not in batch.schema:
            return [(0, batch)]
        if not batch.num_rows:
            return [(0, replaced(batch.tick(self.schema), origin=batch.origin))]
        long = _too_long(batch)
        if not long:
            return self._decoded(batch)
        kept = np.ones(batch.num_rows, np.bool_)
        kept[[b.row for b in long]] = False
        rest = self.process(port, batch.take(np.flatnonzero(kept)))
        return [(ERROR_PORT, self._bad(batch, long)), *rest]

    def _decoded(self, batch: Batch) -> list[tuple[int, Batch]]:
        decoded = self._of_records(batch)
        metadata = self._metadata(batch, decoded)
        self._counters["records_decoded"] += batch.num_rows
        rows = replaced(
            batch.with_columns(self.schema, [*decoded.columns, *metadata]),
            num_rows=decoded.num_rows,
            offsets=_offsets(batch, decoded.rows),
            kinds=_kinds(batch, decoded),
        )
        bad = [*decoded.bad, *self._missing(rows, decoded.rows)]
        if not bad:
            return [(0, rows)]
        if len(bad) > len(decoded.bad):
            rows = rows.take(np.flatnonzero(~_nulls(rows, self._required)))
        return [(ERROR_PORT, self._bad(batch, bad)), (0, rows)]

    def _of_records(self, batch: Batch) -> Decoded:
        records = batch.column(RECORD)
        if not isinstance(self._decoder, KeyedDecoder):
            return self._decoder.decode(records)
        if batch.kinds is None:
            deleted = np.zeros(batch.num_rows, np.bool_)
        else:
            deleted = batch.kinds == RowKind.DELETE
        return self._decoder.decode_keyed(batch.column(KEY), records, deleted)

    def _metadata(self, batch: Batch, decoded: Decoded) -> list[pa.Array]:
        """Returns the metadata columns: by record where the connector has them, by row where the
        format has."""
        from_format = iter(decoded.metadata)
        rows = None if decoded.rows is None else pa.array(decoded.rows)
        columns = []
        for key, column in zip(self._keys, self.schema.columns[len(self.decoded) :], strict=True):
            if key is None:
                columns.append(next(from_format).cast(column.type.arrow))
            else:
                columns.append(batch.column(key) if rows is None else batch.column(key).take(rows))
        return columns

    def _missing(self, rows: Batch, records: IntArray | None) -> Iterator[BadRecord]:
        """Yields the records with NULL in a NOT NULL column."""
        names = [n for n in self._required if rows.column(n).null_count]
        for row in np.flatnonzero(_nulls(rows, names)).tolist() if names else ():
            column = next(n for n in names if not rows.column(n)[row].is_valid)
            record = row if records is None else int(records[row])
            yield BadRecord(record, f"NULL for column '{column}', which is NOT NULL")

    def _bad(self, batch: Batch, bad: Sequence[BadRecord]) -> Batch:
        self._counters["records_malformed"] += len(bad)
        where = pa.array(np.array([b.row for b in bad]))
        payloads = [
            p[:MAX_PAYLOAD].decode("utf-8", "replace")
            for p in batch.column(RECORD).take(where).to_pylist()
        ]
        offsets = batch.column(OFFSET).take(where).to_pylist()
        return letters(
            batch,
            place=[f"{batch.origin}@{o}" for o in offsets],
            subject=self._table,
            reason=[b.reason for b in bad],
            payload=payloads,
            offsets=np.asarray(offsets, np.int64),
        )

    def close(self) -> None: ...


def _too_long(batch: Batch) -> list[BadRecord]:
    """Returns the records that are longer than 'record-size'."""
    records, most = batch.column(RECORD), present().record_size
    if _LENGTH in batch.schema:
        lengths = np.asarray(batch.column(_LENGTH))
    else:
        ends = np.frombuffer(records.buffers()[1], np.int32)[records.offset :][: len(records) + 1]
        if ends[-1] - ends[0] <= most:
            return []
        lengths = np.diff(ends)
    return [
        BadRecord(row, f"the record has {bytes_text(int(lengths[row]))}, {_allowed(most)}")
        for row in np.flatnonzero(lengths > most).tolist()
    ]


def _allowed(most: int) -> str:
    return f"at most {most:,} are allowed ('record-size')"


def _offsets(batch: Batch, records: IntArray | None) -> IntArray:
    """Returns the offset of the record of each row; NO_OFFSET where a record became several
    rows."""
    offsets: IntArray = np.asarray(batch.column(OFFSET))
    if records is None:
        return offsets
    many = np.bincount(records, minlength=1)[records] > 1
    return np.where(many, NO_OFFSET, offsets[records])


def _kinds(batch: Batch, decoded: Decoded) -> npt.NDArray[np.int8] | None:
    """Returns the row kinds of the connector, or else of the format; None where all are +I."""
    kinds = decoded.kinds
    if batch.kinds is not None:
        kinds = batch.kinds if decoded.rows is None else batch.kinds[decoded.rows]
    return kinds if kinds is not None and kinds.any() else None


def _nulls(rows: Batch, names: Sequence[str]) -> BoolArray:
    """Returns True for rows with NULL in one of the columns; a -D may consist of its key alone."""
    has_null = np.zeros(rows.num_rows, np.bool_)
    for name in names:
        has_null |= ~validity(rows.column(name))
    return has_null if rows.kinds is None else has_null & (rows.kinds != RowKind.DELETE)
