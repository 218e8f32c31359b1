"""The decoder of records whose keys and values both have columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parser.types import Column, Schema
from planner.catalog import Table
from sqlengine.formats.base import BadRecord, Decoded, Decoder
from sqlengine.formats.keyed.fields import KeyPart


class KeyedDecoder(Decoder):
    """Decodes records of which both key and value have columns.

    `key` gives those of `key_columns`, `value` those of `value_columns`; a row has them in the
    order of `columns`. Where both have one, that of the value counts, if there is a value."""

    def __init__(
        self,
        part: KeyPart,
        key: Decoder,
        value: Decoder,
        columns: Iterable[Column],
        key_columns: Iterable[str],
        value_columns: Iterable[str],
    ) -> None:
        self._upserts = part.upserts
        self._key, self._value = key, value
        self._columns = tuple(columns)
        self._of_key = {name: n for n, name in enumerate(key_columns)}
        self._of_value = {name: n for n, name in enumerate(value_columns)}

    def decode(self, records: pa.Array) -> Decoded:
        """Decodes values whose keys are not known."""
        keys = pa.nulls(len(records), pa.binary())
        return self.decode_keyed(keys, records, np.zeros(len(records), np.bool_))

    def decode_keyed(
        self, keys: pa.Array, records: pa.Array, deleted: npt.NDArray[np.bool_]
    ) -> Decoded:
        """Decodes keys (NULL: none) and values; those that are `deleted` have none. A record is bad
        where either is; never raises for data."""
        live = np.flatnonzero(~deleted)
        values = self._value.decode(records if len(live) == len(records) else records.take(live))
        of_values = live if values.rows is None else live[values.rows]
        bad = {int(live[b.row]): b.reason for b in values.bad}
        found = _Keys(keys, self._key, must_be=self._upserts) if self._of_key else None
        if found is not None:
            bad = {**found.bad, **bad}
        gone = np.flatnonzero(deleted)
        # Rows of records with a value, then deletions, put back into the order of the records.
        records_of = np.concatenate([of_values, gone])
        kept = np.flatnonzero(~np.isin(records_of, list(bad)))
        order = kept[np.argsort(records_of[kept], kind="stable")]
        rows = records_of[order]
        dead = order >= len(of_values)
        taken = pa.array(np.where(dead, 0, order), mask=dead)
        columns = tuple(self._column(c, values, found, taken, rows, dead) for c in self._columns)
        return Decoded(
            columns,
            len(rows),
            rows=rows,
            bad=tuple(BadRecord(row, bad[row]) for row in sorted(bad)),
            kinds=None if values.kinds is None else _kinds(values.kinds, taken),
            metadata=tuple(m.take(taken) for m in values.metadata),
        )

    def _column(
        self,
        column: Column,
        values: Decoded,
        keys: _Keys | None,
        taken: pa.Array,
        rows: npt.NDArray[np.int64],
        dead: npt.NDArray[np.bool_],
    ) -> pa.Array:
        of_key, of_value = self._of_key.get(column.name), self._of_value.get(column.name)
        value = None if of_value is None else values.columns[of_value].take(taken)
        if of_key is None or keys is None or (value is not None and not dead.any()):
            assert value is not None
            return value
        key = keys.column(of_key, rows)
        return key if value is None else _chosen(dead, key, value)


def _kinds(kinds: npt.NDArray[np.int8], taken: pa.Array) -> npt.NDArray[np.int8]:
    found: npt.NDArray[np.int8] = kinds[np.asarray(taken.fill_null(0))]
    return found


def _chosen(mask: npt.NDArray[np.bool_], yes: pa.Array, no: pa.Array) -> pa.Array:
    """Returns the values of `yes` where the mask is True; of any type, nested ones too."""
    both = pa.concat_arrays([yes, no])
    count = len(mask)
    return both.take(pa.array(np.where(mask, 0, count) + np.arange(count)))


class _Keys:
    """The decoded keys of records: a row each, or none."""

    def __init__(self, keys: pa.Array, decoder: Decoder, *, must_be: bool) -> None:
        there = np.flatnonzero(np.asarray(keys.is_valid()))
        decoded = decoder.decode(keys if len(there) == len(keys) else keys.take(there))
        self.bad = {int(there[b.row]): f"key: {b.reason}" for b in decoded.bad}
        if must_be:
            missing = np.setdiff1d(np.arange(len(keys)), there)
            self.bad |= dict.fromkeys(missing.tolist(), "the record has no key")
        self._columns = decoded.columns
        self._row = np.full(len(keys), -1, np.int64)
        self._row[there if decoded.rows is None else there[decoded.rows]] = np.arange(
            decoded.num_rows
        )

    def column(self, number: int, records: npt.NDArray[np.int64]) -> pa.Array:
        """Returns a column for these records, NULL where one has no key."""
        at = self._row[records]
        return self._columns[number].take(pa.array(np.maximum(at, 0), mask=at < 0))


def keyed_decoder(
    part: KeyPart,
    table: Table,
    columns: Iterable[Column],
    key_decoder: Callable[[Schema, tuple[str, ...]], Decoder],
    value_decoder: Callable[[Schema, tuple[Column, ...]], Decoder],
) -> KeyedDecoder:
    """Returns a decoder of `columns` of the table, made of those of its two formats."""
    wanted = tuple(columns)
    fields = part.schema(table)
    names = {name: name.removeprefix(part.prefix) for name in part.columns}
    key_columns = [n for n in part.columns if n in {c.name for c in wanted}]
    # A decoder gives its columns in the order of its schema.
    key = key_decoder(fields, tuple(names[n] for n in key_columns))
    of_value = part.of_value(wanted)
    value = value_decoder(Schema(part.of_value(table.physical)), of_value)
    return KeyedDecoder(part, key, value, wanted, key_columns, (c.name for c in of_value))
