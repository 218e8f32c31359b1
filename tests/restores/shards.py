"""The tables of a statement, dealt into shards: a file of lines becomes several, which are read
side by side. Each of them keeps its lines in order, so no row is later in its shard than it was in
the whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from parser.types import INTERVAL_DAY_TIME
from planner.catalog import Table
from planner.logical import AssignWatermark, LogicalPlan, Scan, Sink
from planner.rewrite import transform
from planner.scalar import Call, Literal
from sqlengine.formats.registry import framing_of
from tests.restores.lives import Statement

# How line i of n goes to one of three shards.
Deal = Callable[[int, int], int]
DEALS: Final[Mapping[str, Deal]] = {
    "in turns": lambda i, n: i % 3,
    "the last part first": lambda i, n: 2 - 3 * i // n,
}


# How much later the watermark may be, so that no row is late.
PATIENCE_MS: Final = (5_000, 20_000, 60_000)


def patient(statement: Statement, delay_ms: int) -> Statement:
    """The statement over tables whose watermarks are so much later."""

    def rule(node: LogicalPlan) -> LogicalPlan:
        if not isinstance(node, AssignWatermark):
            return node
        told = node.watermark.expression
        later = Call("-", (told, Literal(delay_ms, INTERVAL_DAY_TIME)), told.type)
        return replace(node, watermark=replace(node.watermark, expression=later))

    return _rewritten(statement, rule) if delay_ms else statement


def dealt(statement: Statement, folder: Path, deal: Deal) -> Statement:
    """The statement over tables whose lines are dealt to files below `folder`."""
    made: dict[object, Table] = {}

    def rule(node: LogicalPlan) -> LogicalPlan:
        if not isinstance(node, Scan):
            return node
        known = (node.table.name, *sorted(node.table.options.items()))
        if known not in made:
            place = folder / str(len(made))
            _write(_lines(node.table), place, deal)
            made[known] = replace(node.table, options={**node.table.options, "path": str(place)})
        return replace(node, table=made[known])

    return _rewritten(statement, rule)


def _rewritten(statement: Statement, rule: Callable[[LogicalPlan], LogicalPlan]) -> Statement:
    sinks = [transform(sink, rule) for sink in statement.sinks]
    return replace(statement, sinks=tuple(s for s in sinks if isinstance(s, Sink)))


def _lines(table: Table) -> list[bytes]:
    path = Path(table.options["path"].removeprefix("file://"))
    files = (
        [path]
        if path.is_file()
        else sorted(p for p in path.rglob("*") if p.is_file() and p.name[0] not in "._")
    )
    found = (
        framing_of(table).split(f.read_bytes(), complete=True).records.to_pylist() for f in files
    )
    return [line for lines in found for line in lines]


def _write(lines: Sequence[bytes], folder: Path, deal: Deal) -> None:
    folder.mkdir(parents=True)
    shards: list[list[bytes]] = [[], [], []]
    for i, line in enumerate(lines):
        shards[deal(i, len(lines))].append(line)
    for number, shard in enumerate(shards):
        (folder / f"shard-{number}").write_bytes(b"".join(line + b"\n" for line in shard))
