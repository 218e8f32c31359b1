"""Look-ups in files that are mapped into memory: the versions that come, and the rows in them."""

from __future__ import annotations

from typing import Final, Protocol

import msgspec
import numpy as np
import pyarrow as pa

from parser.types import INT, STRING, Column, Schema
from planner.logical import AssignWatermark, LogicalPlan, LookupJoin, MappedScan, Project
from planner.scalar import ColumnRef
from sqlengine.batch import Batch, IntArray
from sqlengine.dimensions.table import Lookup, MappedTable
from sqlengine.dimensions.versions import Letter
from sqlengine.operators.base import ERROR_PORT, Context, Output
from sqlengine.operators.dead_letters import letters
from sqlengine.operators.scan import RECORD

_ONLY: Final = Column("#only", INT.with_nullable(False))
_NAME: Final = "name"
VERSION: Final = "version"  # the name of the table


class VersionRecord(msgspec.Struct, frozen=True):
    """A record of a source of versions: the name of one, or a row that is not in it."""

    name: str = ""
    letter: Letter | None = None

    def encode(self) -> bytes:
        """Returns the record as bytes."""
        return msgspec.json.encode(self)


_DECODER: Final = msgspec.json.Decoder(VersionRecord)


class Versions(Protocol):
    """Maps versions by their names."""

    def open(self, name: str, schema: Schema, by: Lookup) -> MappedTable: ...


class StoredColumns:
    """The columns of a table of look-ups as they are stored: projections that only rename are left
    out, so that look-ups which differ in these share what is stored.

    `plan`: the plan whose rows are stored; `names`: by the name of a column, its name there."""

    def __init__(self, scan: MappedScan) -> None:
        assert scan.rows is not None
        self.plan: LogicalPlan = scan.rows
        self.names = {n: n for n in scan.schema.names}
        while (below := _only_names(self.plan)) is not None:
            names = dict(below)
            self.names = {n: names[stored] for n, stored in self.names.items()}
            (self.plan,) = self.plan.inputs
        self.schema = self.plan.schema
        self.lookup = Lookup(
            self._stored(scan.keys),
            frozenset(self._stored(scan.null_safe)),
            self._stored(scan.unique),
        )

    def _stored(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self.names[n] for n in names)


def _only_names(plan: LogicalPlan) -> list[tuple[str, str]] | None:
    """Returns the names that an operation gives to the columns below; None where it does more."""
    if isinstance(plan, AssignWatermark):
        return [(n, n) for n in plan.schema.names]
    if not isinstance(plan, Project):
        return None
    given = [(n, e.name) for n, e in plan.items if isinstance(e, ColumnRef)]
    return given if len(given) == len(plan.items) else None


class VersionScanOperator:
    """Passes the names of versions on; rows that are not in a version become dead letters.
    Stateless."""

    def open(self, context: Context) -> None: ...

    def process(self, port: int, batch: Batch) -> Output:
        if RECORD not in batch.schema or not batch.num_rows:
            return [(0, batch)]
        records = [_DECODER.decode(r) for r in batch.column(RECORD).to_pylist()]
        bad = [r.letter for r in records if r.letter is not None]
        rows = np.array([i for i, r in enumerate(records) if r.letter is None], np.int64)
        output: Output = [(0, batch.take(rows))]
        if bad:
            failed = letters(
                batch,
                place=[x.place for x in bad],
                subject=[x.subject for x in bad],
                reason=[x.reason for x in bad],
                payload=[x.payload for x in bad],
            )
            output.insert(0, (ERROR_PORT, failed))
        return output

    def close(self) -> None: ...


class MappedDimension:
    """The rows of the version of a table that came last.

    State: table `version`, the name of that version, which everybody has."""

    def __init__(self, node: LookupJoin, versions: Versions) -> None:
        assert isinstance(node.right, MappedScan)
        self.schema = node.right.schema
        self._stored = StoredColumns(node.right)
        self._versions = versions
        self._table: MappedTable | None = None

    def open(self, context: Context) -> None:
        name = Schema((Column(_NAME, STRING),))
        self._state = context.table(VERSION, Schema((_ONLY,)), name, None)
        self._table = None

    @property
    def rows(self) -> MappedTable:
        """The rows by their keys. They are mapped when they are first asked for: a version that is
        restored may be followed by another before that."""
        if self._table is None:
            live = self._state.live()
            assert len(live), "a look-up before the first version"
            (name,) = self._state.array(_NAME, live).to_pylist()
            self._table = self._versions.open(name, self._stored.schema, self._stored.lookup)
        return self._table

    def column(self, name: str, slots: IntArray) -> pa.Array:
        values = self.rows.column(self._stored.names[name], slots)
        kind = self.schema.type(name).arrow
        return values if values.type.equals(kind) else values.cast(kind)

    def change(self, batch: Batch) -> None:
        """Takes the last of these versions."""
        name = _DECODER.decode(batch.column(RECORD)[batch.num_rows - 1].as_py()).name
        slots, _ = self._state.slots_for([pa.array([0], pa.int32())], 1)
        self._state.write(slots, {_NAME: pa.array([name])})
        self._state.mark(slots)
        self._table = None
