"""The input of an aggregate: the columns it reads and the calls it computes."""

from __future__ import annotations

from parser.types import DataType, TimeAttribute
from planner.binder import pool
from planner.logical import AggregateCall, LogicalPlan
from planner.scalar import ColumnRef, Scalar


class AggregateInput:
    """Collects the columns that an aggregate reads from `plan`, and its calls.

    `columns` are projected below the aggregate. `results` are the columns that it emits besides its
    keys. `varying` are calls of aggregates that may differ for equal rows: no other query shares
    their input."""

    def __init__(self, plan: LogicalPlan) -> None:
        self.plan = plan
        self.columns: dict[str, Scalar] = {}
        # By function, argument and filter, so that equal calls are computed once.
        self.calls: dict[str, AggregateCall] = {}
        self.results: set[str] = set()
        self.varying: list[Scalar] = []

    @property
    def salted(self) -> tuple[Scalar, ...]:
        """All expressions of the input; a non-deterministic one keeps it from being shared."""
        return (*self.columns.values(), *self.varying)

    def forward(self, name: str) -> None:
        """Adds a column of the plan under its own name."""
        self.columns[name] = pool.column(name, self.plan.schema.type(name))

    def column(self, value: Scalar, prefix: str) -> str:
        """Returns the name of the column with this value, and adds it if there is none yet."""
        if isinstance(value, ColumnRef):
            self.columns[value.name] = value
            return value.name
        for name, known in self.columns.items():
            if known.digest == value.digest:
                return name
        name = self.fresh(prefix)
        self.columns[name] = value
        return name

    def fresh(self, prefix: str) -> str:
        """Returns a name that no column below or above the aggregate has."""
        taken = {*self.plan.schema.names, *self.columns, *self.results}
        number = 0
        while f"{prefix}${number}" in taken:
            number += 1
        return f"{prefix}${number}"

    def call(
        self, name: str, argument: Scalar | None, result: DataType, predicate: Scalar | None
    ) -> ColumnRef:
        """Returns the column of a call, and adds the call if there is no equal one yet.

        `predicate` is the condition of FILTER (WHERE …)."""
        column = None if argument is None else self.column(argument, "argument")
        where = None if predicate is None else self.column(predicate, "filter")
        kind = None if argument is None else argument.type.as_attribute(TimeAttribute.NONE)
        key = f"{name} {column} {where}"
        if key not in self.calls:
            fresh = self.fresh("aggregate")
            self.results.add(fresh)
            self.calls[key] = AggregateCall(fresh, name, column, result, kind, False, where)
        return pool.column(self.calls[key].name, self.calls[key].type)
