"""Rows that refer to rows of another table of the same operator: by the permanent number of that
row (`KeyedTable.identities`), which is another one wherever the row arrives anew.

Between two tables such a row has the place of the other one, among the rows that go with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlengine.state.columns import IntArray
from sqlengine.state.table import BUCKET, SEQUENCE, KeyedTable

# The column that holds the number, and the name of the table with the rows that it refers to.
REFERENCE: Final = "#group"
REFERRED: Final = "groups"

# The rows of an operator's tables by the operator's names.
Rows = Mapping[str, pa.Table]


def detached(dumps: Rows) -> dict[str, pa.Table]:
    """Returns rows with their hidden columns without these, and so without what belongs to their
    tables alone. Rows that have none already stay as they are."""
    found: dict[str, pa.Table] = {}
    for name, rows in dumps.items():
        if REFERENCE in rows.column_names and SEQUENCE in rows.column_names:
            places = pc.index_in(rows[REFERENCE], value_set=numbers_in(dumps[REFERRED]))
            at = rows.column_names.index(REFERENCE)
            rows = rows.set_column(at, REFERENCE, places.cast(pa.int64()))
        hidden = [n for n in (SEQUENCE, BUCKET) if n in rows.column_names]
        found[name] = rows.drop_columns(hidden)
    return found


def referring(rows: pa.Table, referred: pa.Table) -> pa.Table:
    """Returns those of the rows that refer to one of the `referred` ones."""
    return rows.filter(pc.is_in(rows[REFERENCE], value_set=numbers_in(referred)))


def numbers_in(dump: pa.Table) -> pa.Array:
    """Returns the permanent numbers of rows in a dump."""
    sequence = dump[SEQUENCE].to_numpy().astype(np.int64)
    return pa.array(sequence * 256 + dump[BUCKET].to_numpy())


def attach(tables: Mapping[str, KeyedTable], rows: Rows) -> None:
    """Adds detached rows to the tables of an operator: they arrive now."""
    arrived = {n: tables[n].absorb(part) for n, part in rows.items() if not _refers(part)}
    for name, part in rows.items():
        if _refers(part):
            attach_referring(tables[name], part, tables[REFERRED], arrived[REFERRED])


def attach_referring(
    table: KeyedTable, rows: pa.Table, referred: KeyedTable, slots: IntArray
) -> None:
    """Adds detached rows that refer to those at `slots` of another table, by their places."""
    numbers, buckets = referred.identities(slots)
    places = rows[REFERENCE].to_numpy()
    at = rows.column_names.index(REFERENCE)
    table.absorb(rows.set_column(at, REFERENCE, pa.array(numbers[places])), buckets[places])


def _refers(rows: pa.Table) -> bool:
    return REFERENCE in rows.column_names
