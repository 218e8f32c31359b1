"""The functions of ProcessFunctions.java, in Python."""
# ruff: noqa: N801  they are called so in SQL

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sqlengine import ListView, MapView, ProcessContext, TableRow, process_function


def shown(at: dt.datetime | None) -> str:
    return "never" if at is None else "end" if at.year == 9999 else f"{at:%M:%S}"


@process_function(output="ROW<said STRING>")
class hello:
    def eval(self, who: TableRow[Any], word: str | None, times: int | None = None) -> Iterator[Any]:
        yield " ".join("null" if part is None else str(part) for part in (word, who.name, times))


@process_function(output="ROW<`at` STRING, `watermark` STRING>", require_on_time=True)
class clock:
    def eval(self, ctx: ProcessContext[Any], r: TableRow[Any]) -> Iterator[Any]:
        yield shown(ctx.time), shown(ctx.watermark)


@dataclass
class Memory:
    n: int = 0
    last: str | None = "nobody"


@process_function(output="ROW<n BIGINT, `last` STRING>")
class counted:
    State = Memory

    def eval(self, ctx: ProcessContext[Memory], r: TableRow[Any]) -> Iterator[Any]:
        ctx.state.n += 1
        yield ctx.state.n, ctx.state.last
        ctx.state.last = r.name
        if ctx.state.n == 3:
            ctx.clear_state()


@process_function(output="ROW<n BIGINT, `last` STRING>", pass_columns=True)
class passing:
    State = Memory

    def eval(self, ctx: ProcessContext[Memory], r: TableRow[Any]) -> Iterator[Any]:
        ctx.state.n += 1
        yield ctx.state.n, ctx.state.last
        ctx.state.last = r.name


@process_function(output="ROW<n BIGINT>", optional_partition=True)
class whole:
    State = Memory

    def eval(self, ctx: ProcessContext[Memory], r: TableRow[Any]) -> Iterator[Any]:
        ctx.state.n += r.score
        yield ctx.state.n


@process_function(output="ROW<seen STRING, size INT>", optional_partition=True)
class listed:
    @dataclass
    class State:
        names: ListView[str] = field(default_factory=ListView)

    def eval(self, ctx: ProcessContext[State], r: TableRow[Any]) -> Iterator[Any]:
        names = ctx.state.names
        names.append(r.name)
        yield ",".join(names), len(names)
        if len(names) == 3:
            names.clear()


@process_function(output="ROW<before BIGINT, `all` STRING>", optional_partition=True)
class mapped:
    @dataclass
    class State:
        scores: MapView[str, int] = field(default_factory=MapView)

    def eval(self, ctx: ProcessContext[State], r: TableRow[Any]) -> Iterator[Any]:
        scores = ctx.state.scores
        before = scores.get(r.name)
        if r.score < 0:
            scores.pop(r.name, None)
        else:
            scores[r.name] = scores.get(r.name, 0) + r.score
        yield before, "{" + ", ".join(f"{k}={v}" for k, v in sorted(scores.items())) + "}"


@process_function(output="ROW<said STRING>")
class paired:
    State = Memory

    def eval(
        self, ctx: ProcessContext[Memory], people: TableRow[Any], cities: TableRow[Any]
    ) -> Iterator[Any]:
        ctx.state.n += 1
        name = ctx.state.last if people is None else people.name
        ctx.state.last = name
        yield name if cities is None else f"{cities.city} {ctx.state.n}"


@process_function(output="ROW<said STRING, `watermark` STRING, n BIGINT>", optional_partition=True)
class timing:
    """Does with timers what the rows say, and tells all."""

    State = Memory

    def eval(self, ctx: ProcessContext[Memory], r: TableRow[Any]) -> Iterator[Any]:
        ctx.state.n += 1
        yield f"row {r.what}", shown(ctx.watermark), ctx.state.n
        for one in r.what.split(", "):
            self._act(ctx, *one.split(" "))

    def _act(self, ctx: ProcessContext[Memory], name: str, seconds: str | None = None) -> None:
        at = None if seconds is None else ctx.time + dt.timedelta(seconds=int(seconds))
        match name:
            case "set" if at:
                ctx.set_timer(at)
            case "unset" if at:
                ctx.clear_timer(at)
            case "clear":
                ctx.clear_timers()
            case "forget":
                ctx.clear()
            case "idle":
                pass
            case _ if at is None:
                ctx.clear_timer(name)
            case _:
                ctx.set_timer(at, name)

    def on_timer(self, ctx: ProcessContext[Memory], name: str | None) -> Iterator[Any]:
        ctx.state.n += 100
        told = "null" if name is None else name
        yield f"timer {told} {shown(ctx.time)}", shown(ctx.watermark), ctx.state.n
        if name == "once":
            ctx.set_timer(ctx.time + dt.timedelta(seconds=20), "then")
        elif name == "back":
            ctx.set_timer(ctx.time - dt.timedelta(seconds=5), "late")
        elif name == "all":
            ctx.clear_timers()
