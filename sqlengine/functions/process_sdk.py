"""Names for modules with process functions: `from sqlengine import ProcessContext, TableRow,
process_function`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Generic, Protocol, TypeAlias, TypeVar, overload

from sqlengine.functions.sdk import MARK, Declaration

C = TypeVar("C", bound=type)
R = TypeVar("R")
S = TypeVar("S")

# In a hint: the parameter stands for a table.
TABLE = "#table"

# A parameter with this hint gets the rows of a table, each as an R: a dataclass or NamedTuple whose
# fields are the columns that it needs. Without R it is a NamedTuple of all columns.
TableRow: TypeAlias = Annotated[R, TABLE]


@dataclass(frozen=True)
class ProcessDeclaration(Declaration):
    """The arguments of `process_function`."""

    ttl: dt.timedelta | None = None
    keyless: bool = False
    passes_columns: bool = False
    timed: bool = False


class ProcessContext(Protocol, Generic[S]):
    """The things that a process function knows besides the row: its key, its memory, the time.

    `state` is kept for the key from call to call; a new one is made where there is none. `key`: the
    values of PARTITION BY. `time`: that of the row, or of the timer; None without `on_time`.
    `watermark`: None before the first one."""

    state: S

    @property
    def key(self) -> tuple[object, ...]: ...

    @property
    def time(self) -> dt.datetime: ...

    @property
    def watermark(self) -> dt.datetime | None: ...

    def set_timer(self, at: dt.datetime, name: str | None = None) -> None:
        """Calls `on_timer` for this key once the watermark has reached `at`. A timer with a name
        takes the place of the one with that name."""

    def clear_timer(self, timer: str | dt.datetime) -> None:
        """Forgets the timer with that name, or the one without a name at that time."""

    def clear_timers(self) -> None: ...

    def clear_state(self) -> None: ...

    def clear(self) -> None:
        """Forgets all of this key."""


@overload
def process_function(cls: C, /) -> C: ...


@overload
def process_function(
    *,
    output: str | None = None,
    ttl: dt.timedelta | None = None,
    optional_partition: bool = False,
    pass_columns: bool = False,
    require_on_time: bool = False,
    deterministic: bool = True,
) -> Callable[[C], C]: ...


def process_function(
    cls: C | None = None,
    /,
    *,
    output: str | None = None,
    ttl: dt.timedelta | None = None,
    optional_partition: bool = False,
    pass_columns: bool = False,
    require_on_time: bool = False,
    deterministic: bool = True,
) -> C | Callable[[C], C]:
    """A process function (Flink's PTF): a class with `eval(self, ctx, row, …)`, which is called for
    each row of a table and yields rows.

    A class `State` in it, a dataclass, is what it remembers of each key (`ctx.state`); with
    `on_timer(self, ctx, name)` it may be called later. `output`: the type of the rows that it
    yields, as 'ROW<word STRING>', where the hint does not tell. `ttl`: state that was not changed
    for so long is forgotten. `optional_partition`: a table may come without PARTITION BY.
    `pass_columns`: a row goes on with all its columns. `require_on_time`: a call must name the
    time of its rows, as one of a function with timers must."""
    made = ProcessDeclaration(
        "process",
        deterministic=deterministic,
        result_type=output,
        ttl=ttl,
        keyless=optional_partition,
        passes_columns=pass_columns,
        timed=require_on_time,
    )

    def declare(declared: C) -> C:
        setattr(declared, MARK, made)
        return declared

    return declare if cls is None else declare(cls)
