"""Process functions: users' code over the rows of a key, with state and timers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Final

from parser.errors import Position
from parser.types import BOOLEAN, Column, Schema
from planner.logical.change_kinds import ModifyKindSet
from planner.logical.node import (
    Names,
    OneInput,
    Stateful,
    constant_if_insert_only,
    never,
)
from planner.scalar import Call, Literal

# What a process function that is not deterministic is to its plan.
VARYING: Final = Call("#varying", (), BOOLEAN, deterministic=False)


@dataclass(frozen=True)
class ProcessTable:
    """A table of a process function: the name of the parameter, and for each of the columns that
    its rows have the input's column and its own name."""

    name: str
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ProcessFunction(OneInput, Stateful):
    """Calls a process function for each row (StreamExecProcessTableFunction).

    `function` is its identity, `called` its name in the text. Output: `columns`, which are those of
    `passed` (the keys, or all), then the function's, then the time where there is one. Of several
    `tables` each row has its number in the column `table`. `memory` says in words what is kept for
    a key: '' for nothing. `uid`: the identity of the call in its job, '' where nothing is kept and
    none was given. What the function does is its own affair: nothing goes past it."""

    reads_all_columns: ClassVar[bool] = True
    folds: ClassVar[bool] = False

    forwards_window = never
    monotonicity = cached_property(constant_if_insert_only)

    function: str
    called: str
    arguments: tuple[tuple[str, Literal], ...]
    tables: tuple[ProcessTable, ...]
    keys: tuple[str, ...]
    time: str | None
    uid: str
    passed: tuple[str, ...]
    columns: tuple[Column, ...]
    memory: str
    table: str | None = None
    timers: bool = False
    salt: str = ""
    views: tuple[int | None, ...] = ()
    position: Position | None = field(default=None, compare=False, repr=False)

    @cached_property
    def changes(self) -> ModifyKindSet:
        return ModifyKindSet.NONE

    @cached_property
    def schema(self) -> Schema:
        return Schema(self.columns)

    @property
    def remembers(self) -> bool:
        """True if something is kept for each key."""
        return bool(self.memory)

    @property
    def functions(self) -> frozenset[str]:
        return frozenset((self.function,))

    @property
    def outlasts_changes(self) -> bool:
        return True

    @property
    def meaning(self) -> tuple[str, ...]:
        """Its uid and the form of its state: the code may be another one."""
        types = (str(self.input.schema.type(k).plain) for k in self.keys)
        return (self.uid, self.memory, *types)

    @property
    def label(self) -> str:
        tables = (f"{t.name} => {', '.join(n for _, n in t.columns)}" for t in self.tables)
        scalars = (f"{n} => {v}" for n, v in self.arguments)
        by = f" by {', '.join(self.keys)}" if self.keys else ""
        on_time = f" on time {self.time}" if self.time is not None else ""
        kept = f", keeps {self.memory}" if self.memory else ""
        uid = f" as '{self.uid}'" if self.uid else ""
        return f"{self.called}({'; '.join((*tables, *scalars))}){by}{on_time}{uid}{kept}"

    @property
    def parameters(self) -> tuple[str, ...]:
        scalars = (f"{n} {v.digest}" for n, v in self.arguments)
        tables = (f"{t.name} {t.columns}" for t in self.tables)
        return (
            self.salt, self.function, self.uid, self.time or "", self.table or "", *scalars, "|",
            *tables, "|", *self.keys, "|", *self.passed, "|", *map(str, self.columns),
            "|", *map(str, self.views),
        )  # fmt: skip

    def column_sources(self, port: int) -> Mapping[str, str]:
        return {c.name: n for c, n in zip(self.columns, self.passed, strict=False)}

    def reads(self, outputs: Names, port: int) -> Names:
        tables = (n for t in self.tables for n, _ in t.columns)
        times = (n for n in (self.time, self.table) if n is not None)
        return frozenset((*self.keys, *self.passed, *tables, *times))

    def exchange(self, port: int) -> tuple[str, ...] | None:
        """None where rows may be given in any process: nothing is kept."""
        return self.keys if self.remembers else None
