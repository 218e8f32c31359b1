"""Upsert topics: a record is the last row of its key, one without a value (a tombstone) says that
the row is deleted.

The record's key is a JSON object of the primary key's columns, so that a deletion can be read
without its row."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parser.errors import OptionError
from planner.catalog import Table
from sqlengine.batch import Batch, RowKind
from sqlengine.broker.base import Records
from sqlengine.formats.options import boolean
from sqlengine.formats.registry import encoder_of

UPSERT_OPTION = "upsert"


def is_upsert(table: Table) -> bool:
    """True if the table's records are upserts. PlanError where it lacks what that needs."""
    if not _is_true(table, UPSERT_OPTION):
        return False
    if not table.primary_key:
        raise OptionError(
            f"table '{table.display}' with 'upsert' = 'true' has no primary key",
            hint="declare PRIMARY KEY (…) NOT ENFORCED",
            subject="upsert",
        )
    given = table.options.get("key.fields")
    if given is not None and {n.strip() for n in given.split(";")} != set(table.primary_key):
        raise OptionError(
            f"'key.fields' of table '{table.display}' are not its primary key",
            detail="rows of a table with 'upsert' = 'true' are known by the primary key",
            hint="leave 'key.fields' out",
            subject="key.fields",
        )
    if table.options.get("format") != "json":
        raise OptionError(
            f"table '{table.display}' with 'upsert' = 'true' needs the format 'json'",
            detail="keys are written and read as JSON objects",
            subject="format",
        )
    if _is_true(table, "json.fail-on-missing-field"):
        raise OptionError(
            f"'json.fail-on-missing-field' and 'upsert' of table '{table.display}' exclude each"
            " other",
            hint="leave one of them out",
            subject="json.fail-on-missing-field",
        )
    return True


def _is_true(table: Table, option: str) -> bool:
    """Returns an option that is false where it is missing. OptionError for no truth value."""
    text = table.options.get(option, "false")
    try:
        return boolean(text)
    except ValueError as error:
        message = f"bad value '{text}' for option '{option}' of table '{table.display}'"
        raise OptionError(message, detail=str(error), subject=option) from None


class Upserts:
    """Writes rows as upserts: records and their keys."""

    def __init__(self, table: Table) -> None:
        self._keys = table.physical.select(table.primary_key)
        self._encoder = encoder_of(table, self._keys)

    def keys(self, batch: Batch) -> pa.Array:
        return self._encoder.encode(
            batch.with_columns(self._keys, [batch.column(c.name) for c in self._keys])
        )

    def values(self, records: pa.Array, batch: Batch) -> pa.Array:
        """Returns the records, NULL (a tombstone) for rows that are deleted."""
        if batch.kinds is None:
            return records
        deleted = (batch.kinds == RowKind.DELETE) | (batch.kinds == RowKind.UPDATE_BEFORE)
        return pc.if_else(pa.array(deleted), pa.scalar(None, records.type), records)


def read_upserts(records: Records) -> tuple[pa.Array, npt.NDArray[np.int8], npt.NDArray[np.bool_]]:
    """Returns the bytes to decode of each record (its value, for a deletion its key), the kind of
    each, and a mask of those that can be read: a deletion without a key cannot."""
    present = np.asarray(records.values.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    kinds = np.where(present, RowKind.UPDATE_AFTER, RowKind.DELETE).astype(np.int8)
    if present.all():
        return records.values, kinds, present
    keys = (
        records.keys
        if records.keys is not None
        else pa.nulls(records.num_rows, records.values.type)
    )
    texts = pc.coalesce(records.values, keys.cast(records.values.type))
    readable = np.asarray(texts.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    return texts.filter(pa.array(readable)), kinds[readable], readable
