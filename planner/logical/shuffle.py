"""The nodes of an exchange between the subtasks of a distributed graph.

They occur in physical plans alone (planner/graph/distribution.py): the graph into which jobs are
merged knows no subtasks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from parser.types import BYTES, Column, Schema
from planner.logical.change_kinds import ModifyKindSet
from planner.logical.endpoints import Scan
from planner.logical.monotonicity import ModifiedMonotonicity
from planner.logical.node import (
    LogicalPlan,
    OneInput,
    after_only_of_inputs,
    changes_of_inputs,
    constant_if_insert_only,
    never,
    no_columns,
    same_columns,
)
from planner.tables import MetadataColumn, Table

KEY = "key"
# The output ports of `ShuffleOut`: encoded records for other subtasks, and rows that stay in this
# one, as they are.
REMOTE, LOCAL = 0, 1


@dataclass(frozen=True)
class ShuffleOut(OneInput):
    """Sends rows over an exchange to the subtasks that own the buckets of their `keys`.

    Without keys, `()`, all rows go to subtask 0, which owns bucket 0; with None they stay in this
    subtask, `index`. Watermarks go to all subtasks. `columns`: those that the operation behind the
    exchange reads."""

    exchange_id: str
    keys: tuple[str, ...] | None
    columns: Schema
    index: int
    parallelism: int

    changes = cached_property(changes_of_inputs)
    after_only = cached_property(after_only_of_inputs)
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
            else f"by {', '.join(self.keys) or 'nothing'} to {self.parallelism} parts"
        )


@dataclass(frozen=True)
class ShuffleIn(LogicalPlan):
    """Receives rows from an exchange, with the combined watermark of all subtasks."""

    exchange_id: str
    columns: Schema
    parallelism: int

    changes = cached_property(changes_of_inputs)
    after_only = cached_property(after_only_of_inputs)
    column_sources = no_columns
    forwards_window = never
    monotonicity = cached_property(constant_if_insert_only)

    @property
    def schema(self) -> Schema:
        return self.columns

    @property
    def label(self) -> str:
        return f"from {self.parallelism} parts"


@dataclass(frozen=True)
class ShuffleScan(Scan):
    """Reads all encoded batches sent to a subtask; `exchange_ids` by output port."""

    exchange_ids: tuple[str, ...] = ()

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
        return f"{len(self.exchange_ids)} crossings"


def shuffle_table(topic: str) -> Table:
    """Returns the topic over which subtasks exchange rows, as a source of a plan."""
    record = Schema((Column("batch", BYTES),))
    key = MetadataColumn(Column(KEY, BYTES), KEY, virtual=True)
    return Table(("", "", topic), record, record, {"connector": "shuffle", "topic": topic}, (key,))
