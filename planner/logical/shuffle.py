"""Where rows leave one part of a divided graph and enter another. These nodes stand in physical
plans alone: the graph that jobs are merged into knows nothing of parts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from parser.types import BYTES, Column, Schema
from planner.logical.change_kinds import ModifyKindSet
from planner.logical.core import Scan
from planner.logical.monotonicity import ModifiedMonotonicity
from planner.logical.node import (
    LogicalPlan,
    OneInput,
    changes_of_inputs,
    constant_if_insert_only,
    never,
    no_columns,
    same_columns,
)
from planner.tables import MetadataColumn, Table

KEY = "key"
# The output ports of rows that leave a part: those for other parts in parcels, those for itself as
# they are.
REMOTE, LOCAL = 0, 1


@dataclass(frozen=True)
class ShuffleOut(OneInput):
    """Rows on their way over the crossing of that name to the parts that own the buckets of their
    `keys` (none: all to the part of bucket 0; None: they stay in this part, `index`). How far the
    time is goes to all `parts`. `columns` are those that the operation behind the crossing
    takes."""

    crossing: str
    keys: tuple[str, ...] | None
    columns: Schema
    index: int
    parts: int

    changes = cached_property(changes_of_inputs)
    column_sources = same_columns
    forwards_window = never
    monotonicity = cached_property(constant_if_insert_only)

    @property
    def schema(self) -> Schema:
        return self.columns

    @property
    def label(self) -> str:
        return (
            "in this part"
            if self.keys is None
            else f"by {', '.join(self.keys) or 'nothing'} to {self.parts} parts"
        )


@dataclass(frozen=True)
class ShuffleIn(LogicalPlan):
    """What came over a crossing, with the time that all `parts` together have reached."""

    crossing: str
    columns: Schema
    parts: int

    changes = cached_property(changes_of_inputs)
    column_sources = no_columns
    forwards_window = never
    monotonicity = cached_property(constant_if_insert_only)

    @property
    def schema(self) -> Schema:
        return self.columns

    @property
    def label(self) -> str:
        return f"from {self.parts} parts"


@dataclass(frozen=True)
class ShuffleScan(Scan):
    """All that a part is sent, batches in bytes; `crossings` by output port."""

    crossings: tuple[str, ...] = ()

    column_sources = no_columns
    forwards_window = never

    @cached_property
    def changes(self) -> ModifyKindSet:
        return self.table.changes

    @cached_property
    def monotonicity(self) -> ModifiedMonotonicity | None:
        return None

    @cached_property
    def schema(self) -> Schema:
        return Schema(self.table.physical.columns)

    @property
    def label(self) -> str:
        return f"{len(self.crossings)} crossings"


def shuffle_table(topic: str) -> Table:
    """The topic over which parts exchange rows, as a source of a plan."""
    record = Schema((Column("batch", BYTES),))
    key = MetadataColumn(Column(KEY, BYTES), KEY, virtual=True)
    return Table(("", "", topic), record, record, {"connector": "shuffle", "topic": topic}, (key,))
