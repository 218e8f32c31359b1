"""The format 'debezium-avro-confluent': changes as Debezium writes them, with the row before and
the row after, in records of 'avro-confluent'."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from parser.types import STRING, Column, DataType, Schema, row
from planner.logical.change_kinds import ALL_CHANGES
from sqlengine.batch import Batch, RowKind
from sqlengine.formats.avro.confluent import OPTIONS, AvroConfluentFormat
from sqlengine.formats.base import (
    BadRecord,
    Decoded,
    Decoder,
    Encoder,
    FormatCapabilities,
    Option,
)

INSERT, BEFORE, AFTER, DELETE = (int(k) for k in RowKind)
_AFTER_OPS: Final = ("c", "r", "u")
_BEFORE_OPS: Final = ("u", "d")


class DebeziumAvroFormat(AvroConfluentFormat):
    """Flink's."""

    name: ClassVar[str] = "debezium-avro-confluent"
    capabilities: ClassVar[FormatCapabilities] = FormatCapabilities(
        ALL_CHANGES, line_separated=False
    )
    options: ClassVar[Mapping[str, Option]] = OPTIONS

    def decoder(
        self,
        schema: Schema,
        options: Mapping[str, str],
        columns: Sequence[str] | None = None,
        metadata: Sequence[str] = (),
    ) -> Decoder:
        super().decoder(_envelope(schema), options)
        wanted = tuple(c for c in schema if columns is None or c.name in columns)
        return _ChangeDecoder(super().decoder(_envelope(Schema(wanted)), options), wanted)

    def encoder(self, schema: Schema, options: Mapping[str, str]) -> Encoder:
        envelope = _envelope(schema)
        return _ChangeEncoder(super().encoder(envelope, options), envelope)


def _envelope(schema: Schema) -> Schema:
    """Returns the columns of a change of rows of `schema`."""
    image = row(schema.names, tuple(c.type for c in schema))
    return Schema.of(before=image, after=image, op=STRING)


class _ChangeDecoder:
    """Makes rows of changes: an update is two."""

    def __init__(self, inner: Decoder, columns: Sequence[Column]) -> None:
        self._inner = inner
        self._types: list[DataType] = [c.type for c in columns]

    def decode(self, records: pa.Array) -> Decoded:
        """See `Decoder`. A record without bytes, as behind a deletion, gives nothing."""
        filled = np.array([bool(r) for r in records.to_pylist()], np.bool_)
        owners = np.flatnonzero(filled)
        read = self._inner.decode(records.take(pa.array(owners)))
        before, after, op = read.columns
        rows = owners if read.rows is None else owners[read.rows]
        bad = [BadRecord(int(owners[b.row]), b.reason) for b in read.bad]
        kinds: list[int] = []
        places: list[int] = []
        present = (side.is_valid().to_pylist() for side in (before, after))
        for i, (code, had, has) in enumerate(zip(op.to_pylist(), *present, strict=True)):
            reason = _reason(code, had, has)
            if reason is not None:
                bad.append(BadRecord(int(rows[i]), reason))
                continue
            if code in _BEFORE_OPS:
                kinds.append(BEFORE if code == "u" else DELETE)
                places.append(i)
            if code in _AFTER_OPS:
                kinds.append(AFTER if code == "u" else INSERT)
                places.append(len(op) + i)
        return self._rows(pa.concat_arrays([before, after]), rows, places, kinds, bad)

    def _rows(
        self,
        images: pa.Array,
        rows: np.ndarray[tuple[int], np.dtype[np.int64]],
        places: list[int],
        kinds: list[int],
        bad: list[BadRecord],
    ) -> Decoded:
        at = np.array(places, np.int64)
        taken = images.take(pa.array(at))
        fields = taken.flatten() if self._types else []
        ordered = tuple(sorted(bad, key=lambda b: b.row))
        owners = rows[at % max(len(images) // 2, 1)]
        return Decoded(tuple(fields), len(at), owners, ordered, np.array(kinds, np.int8))


def _reason(op: str | None, had: bool, has: bool) -> str | None:
    """Returns why a change is none; None if it is one."""
    if op not in (*_AFTER_OPS, "d"):
        return f"unknown op {op!r}"
    if op in _AFTER_OPS and not has:
        return f"field 'after' of a change with op '{op}' is null"
    if op in _BEFORE_OPS and not had:
        hint = "; a table of PostgreSQL needs REPLICA IDENTITY FULL for it"
        return f"field 'before' of a change with op '{op}' is null{hint}"
    return None


class _ChangeEncoder:
    """Writes a record per row: an update is a row that is removed and one that is added."""

    def __init__(self, inner: Encoder, envelope: Schema) -> None:
        self._inner, self._envelope = inner, envelope

    def encode(self, batch: Batch) -> pa.Array:
        kinds = np.zeros(batch.num_rows, np.int8) if batch.kinds is None else batch.kinds
        gone = (kinds == BEFORE) | (kinds == DELETE)
        kind = self._envelope.type("before").arrow
        sides = [
            pa.StructArray.from_arrays(list(batch.columns), fields=list(kind), mask=pa.array(mask))
            for mask in (~gone, gone)
        ]
        ops = pa.array(np.where(gone, "d", "c").tolist(), pa.string())
        return self._inner.encode(Batch(self._envelope, (*sides, ops), batch.num_rows))
