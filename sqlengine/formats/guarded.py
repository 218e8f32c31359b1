"""A wall around formats: what a decoder raises is an error of its record, and what an encoder
raises, or makes of rows, an error of these rows."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from parser.errors import ExecutionError, SqlError
from sqlengine.batch import Batch
from sqlengine.formats.base import BadRecord, DataType, Decoded, Decoder, Encoder, OutOfReach
from sqlengine.system.interrupts import uninterrupted

log = logging.getLogger("sqlengine.formats")


class GuardedDecoder(Decoder):
    """Decodes records; one for which the decoder raises, or answers what cannot be, is bad. `types`
    are those of the columns that it gives, and `metadata` those of its metadata."""

    def __init__(
        self,
        name: str,
        decoder: Decoder,
        types: Sequence[DataType],
        metadata: Sequence[DataType] = (),
    ) -> None:
        self._name = name
        self._decoder = decoder
        self._types, self._metadata = types, metadata

    def decode(self, records: pa.Array) -> Decoded:
        """See `Decoder`. OutOfReach as the decoder raises it."""
        if not len(records):
            return self._nothing()
        try:
            return _checked(self._decoder.decode(records), len(records))
        except OutOfReach:
            raise
        except Exception as error:
            with uninterrupted():  # logging has locks that all threads wait for
                log.error("format '%s' failed for a record", self._name, exc_info=error)
        bad = self._bad(records)
        good = np.setdiff1d(np.arange(len(records)), [b.row for b in bad])
        if not len(good):
            return self._nothing(tuple(sorted(bad, key=lambda b: b.row)))
        rest = _checked(self._decoder.decode(records.take(pa.array(good))), len(good))
        bad += [BadRecord(int(good[b.row]), b.reason) for b in rest.bad]
        return replace(
            rest,
            rows=good if rest.rows is None else good[rest.rows],
            bad=tuple(sorted(bad, key=lambda b: b.row)),
        )

    def _nothing(self, bad: tuple[BadRecord, ...] = ()) -> Decoded:
        columns, metadata = (
            tuple(pa.nulls(0, kind.arrow) for kind in kinds)
            for kinds in (self._types, self._metadata)
        )
        return Decoded(columns, 0, np.zeros(0, np.int64), bad, metadata=metadata)

    def _bad(self, records: pa.Array) -> list[BadRecord]:
        """Finds the records at fault by bisection. OutOfReach as the decoder raises it."""
        bad: list[BadRecord] = []
        waiting = [(0, records)]
        while waiting:
            first, part = waiting.pop()
            try:
                _checked(self._decoder.decode(part), len(part))
            except OutOfReach:
                raise
            except Exception as error:  # noqa: BLE001  as above
                half = len(part) // 2
                if half:
                    waiting += [(first, part.slice(0, half)), (first + half, part.slice(half))]
                else:
                    reason = f"format '{self._name}' failed: {_words(error)}"
                    bad.append(BadRecord(first, reason))
        return bad


class GuardedEncoder(Encoder):
    """Encodes rows. ExecutionError, whatever the encoder raises, and for records that are not those
    of the rows."""

    def __init__(self, name: str, encoder: Encoder) -> None:
        self._name = name
        self._encoder = encoder

    def encode(self, batch: Batch) -> pa.Array:
        """See `Encoder`."""
        try:
            records: object = self._encoder.encode(batch)
        except SqlError:
            raise
        except Exception as error:
            raise ExecutionError(
                f"format '{self._name}' cannot write a row", detail=_words(error)
            ) from error
        if not isinstance(records, pa.Array) or len(records) != batch.num_rows:
            raise ExecutionError(
                f"format '{self._name}' cannot write rows: it does not make a record of each"
            )
        return records


def _checked(decoded: object, records: int) -> Decoded:
    """Returns what was decoded of so many records; ValueError where that cannot be."""
    if not isinstance(decoded, Decoded):
        raise ValueError(f"it returned a value of type {type(decoded).__name__}")
    rows, places = decoded.num_rows, decoded.rows
    if any(len(column) != rows for column in (*decoded.columns, *decoded.metadata)):
        raise ValueError(f"it returned columns that have not {rows} rows")
    if places is None and rows != records:
        raise ValueError(f"it returned {rows} rows of {records} records")
    if places is not None and len(places) != rows:
        raise ValueError(f"it returned {len(places)} places of {rows} rows")
    if decoded.kinds is not None and len(decoded.kinds) != rows:
        raise ValueError(f"it returned {len(decoded.kinds)} kinds of {rows} rows")
    return decoded


def _words(error: Exception) -> str:
    text = " ".join(str(error).split())[:200]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
