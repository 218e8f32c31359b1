"""A module with process functions, as a user writes it."""

from __future__ import annotations

MODULE = '''
from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlengine import ProcessContext, TableRow, process_function

MINUTE = dt.timedelta(minutes=1)


@process_function
class greet:
    """Says hello, and how often it has."""

    @dataclass
    class State:
        count: int = 0

    def eval(
        self, ctx: ProcessContext[State], input: TableRow, word: str = "hello", end: str | None = None
    ) -> Iterator[tuple[str, int]]:
        ctx.state.count += 1
        yield f"{word} {input.name}{end or ''}", ctx.state.count


@process_function(output="ROW<said STRING>")
class follow_up:
    """Asks a minute later."""

    @dataclass
    class State:
        name: str = ""
        count: int = 0

    def eval(self, ctx: ProcessContext[State], input: TableRow):
        ctx.state.name, ctx.state.count = input.name, ctx.state.count + 1
        ctx.set_timer(ctx.time + MINUTE)
        yield f"{ctx.key[0]} {ctx.state.count}"

    def on_timer(self, ctx: ProcessContext[State], name: str | None):
        yield f"{ctx.state.name} after {ctx.state.count}"


@process_function(output="ROW<said STRING, `at` TIMESTAMP(3)>")
class timers:
    """Does with timers what the rows say."""

    def eval(self, ctx: ProcessContext, input: TableRow):
        what, _, value = input.what.partition(" ")
        at = ctx.time + dt.timedelta(seconds=int(value)) if value.lstrip("-").isdigit() else None
        if what == "set":
            ctx.set_timer(at)
        elif what == "unset":
            ctx.clear_timer(at)
        elif what == "clear":
            ctx.clear_timers()
        elif value and at:
            ctx.set_timer(at, what)
        else:
            ctx.clear_timer(what)
        yield f"row {input.what}", ctx.watermark

    def on_timer(self, ctx: ProcessContext, name: str | None):
        yield f"timer {name} {ctx.time:%M:%S}", ctx.watermark if ctx.watermark.year < 9999 else None
        if name == "again":
            ctx.set_timer(ctx.time + dt.timedelta(seconds=20), "again")


@process_function
class heights:
    """Rows of a type of its own, without memory."""

    class Person(NamedTuple):
        name: str
        n: float

    def eval(self, who: TableRow[Person], least: float) -> Iterator[tuple[str, float]]:
        if who.n >= least:
            yield who.name, who.n / 2


@process_function(pass_columns=True)
class numbered:
    @dataclass
    class State:
        seen: dict[str, int] = field(default_factory=dict)

    def eval(self, ctx: ProcessContext[State], input: TableRow) -> Iterator[int]:
        seen = ctx.state.seen
        seen[input.name] = seen.get(input.name, 0) + 1
        yield seen[input.name]


@process_function(optional_partition=True)
class total:
    @dataclass
    class State:
        sum: int = 0

    def eval(self, ctx: ProcessContext[State], input: TableRow) -> Iterator[int]:
        ctx.state.sum += input.n
        if ctx.state.sum > 3:
            ctx.clear()
        yield ctx.state.sum


@process_function(output="ROW<text STRING>")
class pairs:
    """Two tables: visits greet by the name that was told last."""

    @dataclass
    class State:
        name: str | None = None

    def eval(self, ctx: ProcessContext[State], people: TableRow, visits: TableRow, mark: str = "!"):
        if people is not None:
            ctx.state.name = people.name
        else:
            yield f"{visits.page} by {ctx.state.name}{mark}"


@process_function
class faulty:
    """Fails in every way that there is."""

    @dataclass
    class State:
        good: int = 0

    def eval(self, ctx: ProcessContext[State], input: TableRow) -> Iterator[int]:
        ctx.state.good += 1
        yield ctx.state.good
        if input.what == "raise":
            raise ValueError("no")
        if input.what == "exit":
            os._exit(7)
        if input.what == "hang":
            time.sleep(60)
        if input.what == "text":
            yield "seven"
        if input.what.startswith("timer"):
            ctx.set_timer(ctx.time, input.what)

    def on_timer(self, ctx: ProcessContext[State], name: str) -> Iterator[int]:
        ctx.state.good += 100
        if name == "timer raise":
            raise ValueError("late")
        if name == "timer exit":
            os._exit(7)
        yield -ctx.state.good


@process_function(ttl=dt.timedelta(seconds=10))
class fading:
    @dataclass
    class State:
        count: int = 0

    def eval(self, ctx: ProcessContext[State], input: TableRow) -> Iterator[int]:
        if input.n:
            ctx.state.count += 1
        yield ctx.state.count


class NoDeclaration:
    pass


@process_function
class no_rows:
    def eval(self, ctx: ProcessContext, input: TableRow):
        pass


@process_function
class behind:
    def eval(self, n: int, input: TableRow) -> Iterator[int]:
        yield n


@process_function
class bare_state:
    class State:
        pass

    def eval(self, ctx: ProcessContext, input: TableRow) -> Iterator[int]:
        yield 1
'''
NAMES = (
    *("greet", "follow_up", "timers", "heights", "numbered", "total", "pairs", "faulty"),
    "fading",
)
